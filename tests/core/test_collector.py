"""The garbage collector of a process that runs one command."""

from __future__ import annotations

import gc
import subprocess
import sys


def test_patient_collector_looks_seldom_and_keeps_nothing_to_look_at() -> None:
    code = (
        "import gc\n"
        "from onnx_passes.core.collector import patient_collector\n"
        "before = gc.get_threshold()[0]\n"
        "with patient_collector():\n"
        "    inside = gc.get_threshold()[0]\n"
        "    kept = [[] for _ in range(1000)]\n"
        "print(inside > 10 * before, gc.get_freeze_count() >= 1000, len(gc.get_objects()) < 1000)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "True", "True"]


def test_library_leaves_the_collector_alone() -> None:
    code = "import gc\nbefore = gc.get_threshold()\nimport onnx_passes.cli.main\nprint(gc.get_threshold() == before)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"
    assert gc.isenabled()
