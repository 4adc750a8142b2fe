from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx_passes
from onnx_passes.core.naming import kebab
from onnx_passes.core.registry import REGISTRY
from onnx_passes.testing.index import INDEX, build_index


def test_index_says_what_the_collection_says():
    assert INDEX.read_text(encoding="utf-8") == build_index(), "run 'make index'"


def test_file_class_and_text_are_named_alike():
    for entry in REGISTRY.entries():
        if entry.module.startswith("onnx_passes.passes."):
            file = kebab(entry.module.rsplit(".", 1)[1])
            # Variants that promise less stand beside the pass that they are variants of; laws stand in tables.
            assert entry.laws or entry.name in (file, f"{file}-rounding", f"{file}-fast"), entry.module
            assert bool(entry.laws) == file.endswith("-laws"), entry.module
            assert REGISTRY.load(entry).__name__ == entry.class_name


def test_every_pass_says_what_it_rewrites_refuses_and_how_exact_it_is():
    for entry in REGISTRY.entries():
        if entry.module.startswith("onnx_passes.passes."):
            parts = [entry.doc.find(word) for word in ("Rewrites:", "Refuses:", "Exactness:")]
            assert -1 < parts[0] < parts[1] < parts[2], entry.name
            assert entry.summary.endswith("."), entry.name


def test_a_moved_and_a_removed_pass_are_indexed_anew(tmp_path):
    package = Path(onnx_passes.__file__).parent
    copied = shutil.copytree(package, tmp_path / "onnx_passes", ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    (copied / "passes/cleanup/unique_names.py").rename(copied / "passes/eliminate/unique_names.py")
    index = copied / "passes" / "index.json"
    entries = json.loads(index.read_text(encoding="utf-8"))
    stale = {**entries[0], "name": "long-gone", "class_name": "LongGone"}
    index.write_text(json.dumps([*entries, stale]), encoding="utf-8")
    command = [sys.executable, "-m", "onnx_passes.testing.index"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True, timeout=120)
    modules = {entry["name"]: entry["module"] for entry in json.loads(index.read_text(encoding="utf-8"))}
    assert modules.keys() == {entry["name"] for entry in entries}
    assert modules["unique-names"] == "onnx_passes.passes.eliminate.unique_names"
