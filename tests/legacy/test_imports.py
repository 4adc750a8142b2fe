"""Modules of version 0.4 are found as attributes, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from onnx_passes import passes

ORDERS = [
    "import onnx_passes.passes as passes",
    "import onnx_passes; passes = onnx_passes.passes",
    "from onnx_passes import passes",
    "from onnx_passes.passes import collect; import onnx_passes.passes as passes",
    "import onnx_passes.api; import onnx_passes.passes as passes",
    "import onnx_passes.verify; import onnx_passes.passes as passes",
    *(
        f"import {', '.join(f'onnx_passes.passes.{name}' for name in names)}; import onnx_passes.passes as passes"
        for names in (("base", "compose"), ("compose", "verify"), ("verify", "base"))
    ),
]
USES = ["passes.compose.ComposePass", "passes.base.Transformation", "passes.verify.equality", "passes.util.is_constant"]


def run(code: str) -> None:
    """Run code in a process that has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("order", ORDERS)
def test_modules_are_attributes(order: str):
    run(f"{order}\n" + "\n".join(f"assert {use}.__name__ == '{use.rpartition('.')[2]}', {use}" for use in USES))


@pytest.mark.parametrize("name", ["base", "compose", "verify"])
def test_any_module_may_be_asked_for_first(name: str):
    run(f"import sys, onnx_passes.passes as p; p.{name}; assert 'onnx_passes.passes.{name}' in sys.modules")


def test_modules_that_nobody_asks_for_are_not_imported():
    modules = "{f'{p.__name__}.base', f'{p.__name__}.compose'}"
    run(f"import sys, onnx_passes.passes as p; assert not {modules} & set(sys.modules)")


def test_names_that_do_not_exist_are_errors_of_attributes():
    with pytest.raises(AttributeError, match=r"module 'onnx_passes\.passes' has no attribute 'composition'"):
        passes.composition  # noqa: B018
    assert not hasattr(passes, "__wrapped__")


def test_modules_are_listed():
    assert {"base", "compose", "register", "util", "verify"} <= set(dir(passes))
