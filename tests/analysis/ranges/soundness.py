"""Run a model and hold every value against the range that was found for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.numbers.range import Range
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.verify.run.execute import Executor

NOISE = 4e-6
"""What rounding in floats may do, relative to the largest number that occurs."""
ROUNDING = (
    "Quant",
    "IntQuant",
    "BipolarQuant",
    "MultiThreshold",
    "QuantizeLinear",
    "Trunc",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
)


def inferred(model: ir.Model) -> ir.Model:
    ShapeInference().call(model)
    return model


def require_sound(
    model: ir.Model, seeds: Mapping[str, object], samples: Sequence[dict[str, np.ndarray]]
) -> Counter[str]:
    """Count what was checked: ``values`` in all, those ``bounded`` and those on a ``grid``."""
    found = ranges_of(model, seeds)  # pyright: ignore[reportArgumentType]
    values = [value for node in model.graph for value in node.outputs if value.name]
    executable = Executor().prepare(model, also=values, engine="onnxruntime")
    largest = _largest(model, found)
    checked: Counter[str] = Counter()
    for sample in samples:
        results = executable.run(sample)
        for value in values:
            checked += _check(value, np.asarray(results[value.name or ""]), found[value], largest[value])
    return checked


def _largest(model: ir.Model, found: Mapping[ir.Value, Range]) -> dict[ir.Value, float]:
    """Return the largest number that each value was computed from since something was rounded to a grid."""
    largest: dict[ir.Value, float] = {}
    for node in model.graph:
        sources = [value for value in node.inputs if value is not None and node.op_type not in ROUNDING]
        own = max(_size(found[value]) for value in (*sources, *node.outputs) if value in found)
        before = max((largest.get(value, 0.0) for value in sources), default=0.0)
        largest |= dict.fromkeys(node.outputs, max(own, before))
    return largest


def _size(known: Range) -> float:
    numbers = np.concatenate([known.low.reshape(-1), known.high.reshape(-1)])
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))


def _check(value: ir.Value, result: np.ndarray, known: Range, largest: float) -> Counter[str]:
    if result.dtype.kind not in "fiub" or np.isnan(result.astype(np.float64)).any():
        return Counter()
    producer = value.producer()
    what = f"{producer.op_type if producer else ''} {value.name} {result.shape}"
    if value.shape is not None:
        assert known.low.ndim == known.high.ndim == result.ndim, what
    x = result.astype(np.float64)
    assert (x >= known.low).all(), f"{what}: {x.min()} is below {known.low.min()} (by {(known.low - x).max()})"
    assert (x <= known.high).all(), f"{what}: {x.max()} is above {known.high.max()} (by {(x - known.high).max()})"
    counts = Counter(values=1, bounded=int(math.isfinite(known.low.min()) and math.isfinite(known.high.max())))
    grid = known.grid
    if grid is None:
        return counts
    assert grid.scale.ndim == grid.bias.ndim == grid.low.ndim == grid.high.ndim == known.low.ndim, what
    place = (x - grid.bias) / grid.scale
    slack = NOISE * (largest + np.abs(grid.bias)) / np.abs(grid.scale) + 1e-6
    if grid.exact:
        assert (place == np.rint(place)).all(), f"{what}: exact values were expected"
    fine = slack < 0.25
    off = np.abs(place - np.rint(place))
    assert (off <= slack)[np.broadcast_to(fine, off.shape)].all(), f"{what}: off its grid by {off.max()} steps"
    room = np.where(fine, 0.0, slack)
    nearest = np.where(fine, np.rint(place), place)
    assert (nearest >= grid.low - room).all(), f"{what}: integer {nearest.min()} is below {grid.low.min()}"
    assert (nearest <= grid.high + room).all(), f"{what}: integer {nearest.max()} is above {grid.high.max()}"
    return counts + Counter(grid=int(bool(fine.any())), exact=int(grid.exact))
