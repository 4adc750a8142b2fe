from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnx_passes.cli.main import run_command_line
from tests.helpers.registry import forgetting

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] a, float[2] b) => (float[2] global_output_0)
<float one = {1.0}, float same = {1.0}>
{
    [first] sum = Add(a, b)
    [second] scaled = Mul(sum, one)
    [unused] nowhere = Mul(a, same)
    [last] global_output_0 = Relu(scaled)
}
"""

BREAK_ADDS = """
from onnx_passes import passes, Transformation, RewriteRulePass

@passes.verify.equality
@passes.register()
class BreakAdds(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Add(x, y)
    def check(self, op, x, y):
        return x != y
    def rewrite(self, op, x, y):
        return op.Add(x, x)
"""


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """Show tables in full, whatever terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "250")


@dataclass
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run the command line in this process, as a user would see it."""

    def call(*arguments: object) -> Answer:
        capfd.readouterr()
        code = run_command_line([str(argument) for argument in arguments])
        sys.stdout.flush()
        captured = capfd.readouterr()
        return Answer(int(code), captured.out, captured.err)

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnxtxt"
    path.write_text(MODEL)
    return path


@pytest.fixture(autouse=True)
def clean_registry() -> object:
    """Forget the passes and modules of users that a test brings in."""
    with forgetting():
        yield
