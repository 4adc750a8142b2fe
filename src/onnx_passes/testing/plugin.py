"""A plugin for pytest: the fixture ``fuzzed_rule`` makes one test for each rule of each registered pass.

Load it with ``-p onnx_passes.testing.plugin`` or ``pytest_plugins = ["onnx_passes.testing.plugin"]`` and write::

    def test_survives_fuzzing(fuzzed_rule):
        fuzzed_rule.check()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onnx_passes.testing.fuzz.targets import Target

_FIXTURE = "fuzzed_rule"


@dataclass(frozen=True)
class FuzzedRule:
    """A rule, and how thoroughly it is to be tried."""

    target: Target
    cases: int
    seed: int
    corpus: Path | None

    def check(self) -> None:
        """Fail with all findings, shown with the smallest model each."""
        from onnx_passes.testing.fuzz import fuzz

        report = fuzz(self.target, self.cases, self.seed, corpus=self.corpus)
        if not report.ok:
            pytest.fail(report.describe(), pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the options of the fuzzer."""
    group = parser.getgroup("onnx-passes")
    group.addoption("--fuzz-cases", type=int, default=60, help="models to try for each rule")
    group.addoption("--fuzz-seed", type=int, default=0, help="seed of all choices")
    group.addoption("--fuzz-corpus", default=None, metavar="DIR", help="models that failed: tried first, and added to")
    group.addoption("--fuzz-rules", default="", metavar="NAMES", help="passes and groups [default: all registered]")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each rule."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    option: Any = metafunc.config.getoption
    corpus = None if option("--fuzz-corpus") is None else Path(option("--fuzz-corpus"))
    rules = [
        FuzzedRule(target, option("--fuzz-cases"), option("--fuzz-seed"), corpus)
        for target in _targets(option("--fuzz-rules"))
    ]
    metafunc.parametrize(_FIXTURE, rules, ids=[rule.target.name for rule in rules])


def _targets(names: str) -> Sequence[Target]:
    from onnx_passes.testing.fuzz.targets import registered, targets_of

    return [target for name in names.replace(",", " ").split() for target in targets_of(name)] or registered()
