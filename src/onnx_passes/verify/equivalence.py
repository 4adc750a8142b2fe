"""Two models on the same data: whether they compute the same, and where they part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.verify.blame.culprit import first_divergence
from onnx_passes.verify.comparison.compare import Comparison, compare
from onnx_passes.verify.run.execute import Engine, Executor
from onnx_passes.verify.samples.fitting import dynamic_axes, run_generated
from onnx_passes.verify.samples.generate import generate
from onnx_passes.verify.samples.reference import read_inputs


@dataclass(frozen=True)
class Equivalence:
    """How the results of two models compare, sample by sample, and the first value that differs."""

    results: tuple[Comparison, ...]
    engine: Engine
    divergence: str = ""

    @property
    def equal(self) -> bool:
        """Tell whether all results are equal bit by bit."""
        return all(result.equal for result in self.results)

    def within(self, atol: float, rtol: float) -> bool:
        """Tell whether all results are within a tolerance."""
        return all(result.within(atol, rtol) for result in self.results)


def compare_models(
    before: ir.Model, after: ir.Model, *, inputs: Sequence[Any] = (), seed: int = 0, executor: Executor | None = None
) -> Equivalence:
    """Run two models on the same samples with one engine and compare what they return.

    Of generated samples, those that the first model cannot take are left out, or cut where it takes none.
    """
    executor = executor or Executor()
    samples = read_inputs(before, inputs) if inputs else generate(before, seed=seed, thorough=True)
    old = executor.prepare(before)
    new = executor.prepare(after, engine=old.engine)
    if inputs:
        samples, expected = old.run_each(samples, all_must_run=True)
    else:
        samples, expected = run_generated(old, samples, dynamic_axes(before))
    results = tuple(compare(wanted, new.run(sample)) for sample, wanted in zip(samples, expected, strict=True))
    wrong = next((n for n, result in enumerate(results) if not result.equal), None)
    divergence = "" if wrong is None else first_divergence(before, after, samples[wrong], executor, old.engine)
    return Equivalence(results, old.engine, divergence)
