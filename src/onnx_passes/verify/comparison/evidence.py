"""Evidence from comparisons: how well results are known to be as promised."""

from __future__ import annotations

import time
from collections.abc import Sequence

from onnx_passes.core.records import Evidence
from onnx_passes.verify.comparison.compare import Comparison
from onnx_passes.verify.comparison.promise import Promise


def evidence_of(
    promise: Promise, comparisons: Sequence[Comparison], samples: int, engine: str, started: float, windows: int = 0
) -> Evidence:
    """Sum up how results compare on samples, or in windows of the model; what is not equal is no more than promised."""
    equal = all(comparison.equal for comparison in comparisons)
    return Evidence(
        level="sampled" if equal else "metric" if promise.claim.kind == "metric" else "tolerance",
        claim=str(promise.claim),
        samples=samples,
        windows=windows,
        max_abs=max((comparison.max_abs or 0.0 for comparison in comparisons), default=0.0),
        max_rel=max((comparison.max_rel or 0.0 for comparison in comparisons), default=0.0),
        max_ulp=max((comparison.max_ulp or 0 for comparison in comparisons), default=0),
        engine=engine,
        seconds=time.perf_counter() - started,
    )
