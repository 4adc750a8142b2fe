"""The plugin for pytest, run in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RULES = """
from onnx_passes import passes, Transformation, RewriteRulePass

@passes.verify.equality
@passes.register("mine")
class PluginNegNeg(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))
    def rewrite(self, op, x):
        return op.Identity(x)

@passes.verify.equality
@passes.register("mine")
class PluginWrongAdd(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Add(x, y)
    def rewrite(self, op, x, y):
        return op.Sub(x, y)

def test_survives_fuzzing(fuzzed_rule):
    fuzzed_rule.check()
"""


@pytest.fixture
def run_pytest(tmp_path: Path):
    (tmp_path / "test_mine.py").write_text(RULES)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "onnx_passes.testing.plugin", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, "--fuzz-cases", "20", *options], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


def test_one_test_for_each_registered_rule(run_pytest) -> None:
    result = run_pytest("--collect-only")
    assert result.returncode == 0, result.stdout + result.stderr
    for name in ("plugin-neg-neg", "plugin-wrong-add"):
        assert f"test_survives_fuzzing[{name}]" in result.stdout


def test_rules_can_be_chosen(run_pytest) -> None:
    result = run_pytest("--fuzz-rules", "plugin-neg-neg")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def test_failure_shows_the_finding_which_is_kept_and_replayed(run_pytest, tmp_path: Path) -> None:
    result = run_pytest("--fuzz-seed", "1", "--fuzz-rules", "mine", "--fuzz-corpus", "known")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "WRONG in plugin-wrong-add" in result.stdout
    assert "1 failed, 1 passed" in result.stdout
    assert list((tmp_path / "known").glob("plugin-wrong-add-WRONG-*.onnxtxt"))
    result = run_pytest("--fuzz-rules", "plugin-wrong-add", "--fuzz-corpus", "known")
    known = len(list((tmp_path / "known").glob("*.onnxtxt")))
    assert f"{known} of {known} models rewritten" in result.stdout
