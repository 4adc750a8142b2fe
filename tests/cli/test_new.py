"""What ``new`` writes is what we would accept ourselves: lint, strict types, and its own tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onnx_passes

ROOT = Path(__file__).parent.parent.parent
KINDS = ("rule", "transformation", "annotation", "analysis")


@pytest.fixture
def scaffolds(run, tmp_path) -> Path:
    for kind in KINDS:
        assert run("new", f"try-{kind}", "--kind", kind, "-d", tmp_path).code == 0
    assert len(list(tmp_path.glob("*.py"))) == 2 * len(KINDS)
    return tmp_path


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def accepted(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_accepts_it(scaffolds):
    shutil.copy(ROOT / "pyproject.toml", scaffolds)
    accepted(tool("ruff"), "format", "--check", ".", folder=scaffolds)
    accepted(tool("ruff"), "check", ".", folder=scaffolds)


def test_strict_types_accept_it(scaffolds):
    settings = {
        "typeCheckingMode": "strict",
        "reportMissingTypeStubs": False,
        "extraPaths": [str(Path(onnx_passes.__file__).parent.parent)],
    }
    (scaffolds / "pyrightconfig.json").write_text(json.dumps(settings))
    accepted(tool("pyright"), "--pythonpath", sys.executable, folder=scaffolds)


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("number.item() != 1", "number.item() != 2", "not the expected graph"),
        ("number.item() != 1", "number.item() == 3", "not as expected"),
        ("return x\n", "return op.Neg(x)\n", "not as expected"),
    ],
)
def test_its_test_fails_if_the_pass_is_wrong(scaffolds, right, wrong, complaint):
    path = scaffolds / "try_rule.py"
    path.write_text(path.read_text().replace(right, wrong))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_try_rule.py"]
    done = subprocess.run(command, cwd=scaffolds, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert complaint in done.stdout
