"""Evidence from comparisons: how well results are known to be as promised."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.core.evidence import Evidence, Finding
from onnx_passes.verify.comparison.compare import Comparison
from onnx_passes.verify.comparison.promise import Promise


def says_nothing(results: Sequence[Mapping[str, np.ndarray]]) -> str:
    """Name outputs that are the same float everywhere in all samples, whatever is computed on the way to them."""
    found: list[str] = []
    for name in results[0] if results else ():
        arrays = [result[name] for result in results if isinstance(result.get(name), np.ndarray)]
        floats = [array.reshape(-1) for array in arrays if array.dtype.kind == "f"]
        elements = np.concatenate(floats) if floats else np.zeros(0)
        if elements.size > 1 and np.array_equal(elements, np.broadcast_to(elements[0], elements.shape), equal_nan=True):
            found.append(f"'{name}' is {elements[0]:g}")
    return f"{' and '.join(found)} in all samples, which shows little: give data with --inputs" if found else ""


def evidence_of(
    promise: Promise, comparisons: Sequence[Comparison], samples: int, engine: str, started: float, windows: int = 0
) -> Evidence:
    """Sum up how results compare on samples, or in windows of the model; what is not equal is no more than promised."""
    equal = all(comparison.equal for comparison in comparisons)
    return Evidence(
        level=str(Finding("bits" if equal else "metric" if promise.claim.kind == "metric" else "tolerance", "sampled")),
        claim=str(promise.claim),
        samples=samples,
        windows=windows,
        max_abs=max((comparison.max_abs or 0.0 for comparison in comparisons), default=0.0),
        max_rel=max((comparison.max_rel or 0.0 for comparison in comparisons), default=0.0),
        max_ulp=max((comparison.max_ulp or 0 for comparison in comparisons), default=0),
        engine=engine,
        seconds=time.perf_counter() - started,
    )
