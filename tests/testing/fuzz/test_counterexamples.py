"""Models on which the collection once failed: none of them is wrong any more, whatever the order of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.corpus import Corpus
from onnx_passes.testing.fuzz.whole.trial import ModelWorker

FOUND = list(Corpus(Path(__file__).with_name("counterexamples")).judged())
NAMES = [path.stem for path, _, _ in FOUND]


@pytest.fixture(scope="module")
def worker() -> Iterator[ModelWorker]:
    with ModelWorker() as process:
        yield process


@pytest.mark.parametrize(("path", "case", "pipeline"), FOUND, ids=NAMES)
def test_counterexample_is_none_any_more(worker: ModelWorker, path: Path, case: Case, pipeline: str):
    for passes in (pipeline, f"shuffle{{seed=1}}({pipeline})", "simplify"):
        verdict = worker.judge(case, passes)
        assert verdict.outcome in ("fine", "no match"), f"{passes}: {verdict.kind} {verdict.message}"
