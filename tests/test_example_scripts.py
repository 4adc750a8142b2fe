"""The scripts in examples/ run as they are, and print what their README quotes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.installation import installed

EXAMPLES = Path(__file__).parent.parent / "examples"
QUOTED = dict(
    re.findall(r"^\| `(\w+\.py)` \| .* \| `(.+)` \|$", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE)
)
NEEDS = {
    name: tuple(extras.split(","))
    for name, extras in re.findall(
        r"^\| `(\w+\.py)` \|.*onnx-passes\[([\w,]+)\]", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE
    )
}
"""The extras of scripts that need more than an installation of the package."""
TESTED_ELSEWHERE = {"write_c.py"}
MODELS = {"digits_export.py", "digits_float.py", "digits_models.py", "train_digits.py"}
"""How the models that ship with the package were made."""

RUNNER = """
import contextlib, io, json, runpy, sys, traceback
said = {}
for path in sys.argv[1:]:
    sys.argv = [path]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            traceback.print_exc(file=output)
    said[path] = output.getvalue()
print(json.dumps(said))
"""


def scripts() -> set[str]:
    return {path.name for path in EXAMPLES.glob("*.py")} - MODELS


def test_readme_lists_all_scripts() -> None:
    assert QUOTED.keys() == scripts()


def test_scripts_print_what_is_quoted(tmp_path: Path) -> None:
    # One process for all that need the same: importing takes longer than most of them.
    said: dict[str, str] = {}
    for extras in {(), *NEEDS.values()}:
        names = [name for name in sorted(scripts() - TESTED_ELSEWHERE) if NEEDS.get(name, ()) == extras]
        command = [sys.executable, "-c", RUNNER, *(str(EXAMPLES / name) for name in names)]
        with installed(*extras):
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        said |= json.loads(done.stdout)
    silent = {Path(path).name: text for path, text in said.items() if QUOTED[Path(path).name] not in text}
    assert not silent


@pytest.mark.parametrize("name", sorted(scripts() - TESTED_ELSEWHERE))
def test_scripts_are_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 60
