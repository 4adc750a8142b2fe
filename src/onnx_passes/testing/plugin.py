"""Pytest plug-in: the fixture ``fuzzed_rule`` makes one test for each rule of each registered pass.

Load it with ``-p onnx_passes.testing.plugin`` or ``pytest_plugins = ["onnx_passes.testing.plugin"]`` and write::

    def test_survives_fuzzing(fuzzed_rule):
        fuzzed_rule.check()
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onnx_passes.testing.fuzz.targets import FuzzTarget
    from onnx_passes.testing.fuzz.worker import Worker

_FIXTURE = "fuzzed_rule"
_SHARED: pytest.StashKey[tuple[Worker, Sequence[FuzzTarget]]] = pytest.StashKey()


@dataclass(frozen=True)
class FuzzedRule:
    """Rule of the fixture, with the options of the fuzzer."""

    target: FuzzTarget
    worker: Worker
    cases: int
    seed: int
    corpus: Path | None

    def check(self) -> None:
        """Fail with all findings, each with its smallest model."""
        from onnx_passes.testing.fuzz import try_rule
        from onnx_passes.testing.fuzz.corpus import Corpus

        known = None if self.corpus is None else Corpus(self.corpus)
        report = try_rule(self.target, self.worker, self.cases, self.seed, known)
        if not report.ok:
            pytest.fail(report.describe(), pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fuzzer."""
    group = parser.getgroup("onnx-passes")
    group.addoption("--fuzz-cases", type=int, default=60, help="models to try for each rule")
    group.addoption("--fuzz-seed", type=int, default=0, help="seed of all choices")
    group.addoption("--fuzz-corpus", default=None, metavar="DIR", help="models that failed: tried first, and added to")
    group.addoption("--fuzz-each", type=int, default=0, metavar="N", help="rules of each pass, drawn [default: all]")
    group.addoption("--fuzz-rules", default="", metavar="NAMES", help="passes and groups [default: all registered]")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each rule."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    option: Any = metafunc.config.getoption
    corpus = None if option("--fuzz-corpus") is None else Path(option("--fuzz-corpus"))
    worker, targets = _shared(metafunc.config)
    rules = [FuzzedRule(target, worker, option("--fuzz-cases"), option("--fuzz-seed"), corpus) for target in targets]
    metafunc.parametrize(_FIXTURE, rules, ids=[rule.target.name for rule in rules])


def _shared(config: pytest.Config) -> tuple[Worker, Sequence[FuzzTarget]]:
    """Return the rules to test, and the process that judges them in all tests."""
    from onnx_passes.testing.fuzz.worker import Worker

    if _SHARED not in config.stash:
        option: Any = config.getoption
        targets = _drawn(_targets(option("--fuzz-rules")), option("--fuzz-each"), option("--fuzz-seed"))
        worker = Worker(targets)
        config.add_cleanup(worker.stop)
        config.stash[_SHARED] = worker, targets
    return config.stash[_SHARED]


def _drawn(targets: Sequence[FuzzTarget], each: int, seed: int) -> Sequence[FuzzTarget]:
    """Draw some of the rules of every pass, since rules of one pass are similar."""
    families: dict[str, list[FuzzTarget]] = {}
    for target in targets:
        families.setdefault(target.name.split("/")[0], []).append(target)
    drawn: list[FuzzTarget] = []
    for name, family in families.items():
        chance = random.Random(f"{seed}/{name}")  # noqa: S311
        drawn.extend(chance.sample(family, each) if 0 < each < len(family) else family)
    return drawn


def _targets(names: str) -> Sequence[FuzzTarget]:
    from onnx_passes.testing.fuzz.targets import registered, targets_of

    return [target for name in names.replace(",", " ").split() for target in targets_of(name)] or registered()
