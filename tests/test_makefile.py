"""Targets of the Makefile: modules that ``make check`` runs, models that programs of others get."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def planned(target: str, **variables: str) -> str:
    """Return the commands of a target that would run in an environment that is set up."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("MAKE", "ONNX_PASSES"))}
    command = ["make", "--dry-run", "--silent", f"--old-file={Path('.venv', '.ready')}", target]
    done = subprocess.run(command, cwd=ROOT, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def test_one_module_of_each_package_is_checked():
    modules = [Path(word) for word in planned("quick").split() if word.startswith("tests/")]
    assert [str(module) for module in modules if not (ROOT / module).is_file()] == []
    found = Counter(module.parts[1] for module in modules if len(module.parts) > 2)
    packages = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert found == dict.fromkeys(packages, 1)


@pytest.mark.parametrize("target", ["clients", "clients-hls4ml", "clients-openvino", "clients-qonnx"])
def test_programs_of_others_get_models_only_where_they_are_named(target: str, tmp_path: Path):
    def runs(**variables: str) -> list[str]:
        lines = planned(target, **variables).splitlines()
        return [line for line in lines if "/bin/python tests/clients/" in line]

    assert runs()
    assert not [line for line in runs() if str(tmp_path) in line or " .. " in line or " /.." in line]
    assert all(str(tmp_path) in line for line in runs(ONNX_PASSES_MODELS=str(tmp_path)))
