"""Two models on the same data: whether they compute the same, and where they part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.core.display import Displayed
from onnx_passes.graph.wording import count
from onnx_passes.verify.blame.culprit import first_divergence
from onnx_passes.verify.comparison.compare import Comparison, compare
from onnx_passes.verify.comparison.promise import DEFAULT, Limits
from onnx_passes.verify.run.execute import Engine, Executor
from onnx_passes.verify.samples.fitting import run_samples


@dataclass(frozen=True)
class Equivalence(Displayed):
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

    def __str__(self) -> str:
        return self.to_text()

    @property
    def verdict(self) -> str:
        """Say in a few words whether results are equal, or close as passes keep them by default."""
        return self.verdict_within(DEFAULT)

    def verdict_within(self, limits: Limits) -> str:
        """Say in a few words whether results are equal, or close."""
        if self.equal:
            return "equal bit by bit"
        return "within tolerance" if self.within(limits.atol, limits.rtol) else "different"

    def to_text(self, limits: Limits = DEFAULT) -> str:
        """Say what differs, the first value that does, and a verdict."""
        lines = [result.describe() for result in self.results if result.first is not None]
        if self.divergence:
            lines.append(f"first divergence: {self.divergence}")
        lines.append(f"{self.verdict_within(limits)} on {count(len(self.results), 'sample')} ({self.engine})")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "equal": self.equal,
            "samples": len(self.results),
            "engine": self.engine,
            "differences": [result.describe() for result in self.results if result.first is not None],
            "first_divergence": self.divergence,
        }


def compare_models(
    before: ir.Model, after: ir.Model, *, inputs: Sequence[Any] = (), seed: int = 0, executor: Executor | None = None
) -> Equivalence:
    """Run two models on the same samples with one engine and compare what they return."""
    executor = executor or Executor()
    old = executor.prepare(before)
    new = executor.prepare(after, engine=old.engine)
    samples, expected = run_samples(old, before, inputs, seed)
    results = tuple(compare(wanted, new.run(sample)) for sample, wanted in zip(samples, expected, strict=True))
    wrong = next((n for n, result in enumerate(results) if not result.equal), None)
    divergence = "" if wrong is None else first_divergence(before, after, samples[wrong], executor, old.engine)
    return Equivalence(results, old.engine, divergence)
