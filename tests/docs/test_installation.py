"""A block imports modules that ``pip install onnx-passes`` brings, and those of extras that it names."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.installation import EXTRAS, HIDDEN, installed, missing_modules
from tests.docs.pages import Block, Runner


def block(text: str, *words: str) -> Block:
    return Block(Path("page.md"), 1, "python", words, text)


@pytest.mark.parametrize("module", ["hypothesis", "networkx", "pyarrow", "pytest", "qonnx", "z3", "zarr.storage"])
def test_what_only_extras_bring_is_missing(module: str):
    importlib.import_module(module)
    with pytest.raises(ModuleNotFoundError, match=module.partition(".")[0]):
        Runner().run(block(f"import {module}"))
    assert importlib.import_module(module) is sys.modules[module]


def test_an_extra_brings_its_modules_and_no_others():
    Runner().run(block("import zarr, pyarrow", "needs=data"))
    Runner().run(block("import zarr, hypothesis, pytest", "needs=data,testing"))
    with pytest.raises(ModuleNotFoundError, match="hypothesis"):
        Runner().run(block("import zarr, hypothesis", "needs=data"))
    with pytest.raises(ModuleNotFoundError, match="zarr"):
        Runner().run(block("import zarr"))


def test_the_package_and_its_dependencies_are_there():
    Runner().run(block("import onnx_passes, click, ml_dtypes, numpy, onnx, onnxruntime, onnxscript, rich, sympy, yaml"))
    for extra in EXTRAS:
        assert missing_modules((extra,)) <= missing_modules()


@pytest.mark.parametrize(("extras", "code"), [((), 1), (("data",), 0)])
def test_processes_of_a_block_lack_the_same_modules(extras: tuple[str, ...], code: int):
    with installed(*extras):
        done = subprocess.run([sys.executable, "-c", "import zarr"], capture_output=True, check=False)
    assert done.returncode == code
    assert HIDDEN not in os.environ
