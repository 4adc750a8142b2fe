"""The page about types says what is true: its example runs and prints what stands beside it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from onnx_passes.core.build import collect

PAGE = Path(__file__).parents[3] / "docs" / "types.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.skipif(not PAGE.exists(), reason="no documentation beside the tests")
def test_the_example_prints_what_stands_beside_it():
    (example,) = blocks("python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, str(PAGE), "exec"), {})
    assert printed.getvalue().splitlines() == re.findall(r"^print\(.*\) +# (.*)$", example, re.MULTILINE)


@pytest.mark.skipif(not PAGE.exists(), reason="no documentation beside the tests")
def test_the_commands_name_passes_that_exist():
    (commands,) = blocks("sh")
    for line in commands.splitlines():
        passes = line.split(" #")[0].split(".onnx ")[-1]
        assert collect(passes.strip().strip("'"))
