"""Statistics of the tensors of a model over data, by tensor and by channel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.channels import channel_axis
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension
from onnx_passes.numbers.range import Range
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.reference import Source

_MOST_LEVELS = 1 << 16
"""Tensors with more distinct values than this are not quantized."""


@dataclass(frozen=True)
class TensorStatistics:
    """Statistics of one tensor; arrays have an element per channel, or one element without channels.

    ``zeros`` and ``saturated`` are shares between 0 and 1: of zeros, and of elements at the least or greatest value
    that a tensor of scaled integers can hold. ``levels`` counts the distinct values, and ``of_levels`` the values
    that one channel can have; both are None for floats.
    """

    name: str
    elements: int
    min: np.ndarray
    max: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    zeros: np.ndarray
    overall_mean: float
    overall_std: float
    saturated: float | None = None
    levels: int | None = None
    of_levels: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data: per-channel statistics as lists, non-finite numbers as null."""
        return {
            key: _finite(value.tolist() if isinstance(value, np.ndarray) else value)
            for key, value in vars(self).items()
        }


def tensor_statistics(
    model: ir.Model, data: Sequence[Source], known: Mapping[ir.Value, Range]
) -> tuple[TensorStatistics, ...]:
    """Run a model on data, batch by batch, and return statistics of its inputs and numeric results."""
    values = [value for node in model.graph for value in node.outputs if value.name and constant(value) is None]
    gathered: dict[str, _Gathered] = {}
    tensors = {value.name: value for value in (*model.graph.inputs, *values)}
    try:
        ready = Executor().prepare(model, also=values)
        for batch in Dataset.read(model, data):
            rows = next((len(array) for array in batch.inputs.values() if array.ndim), None)
            for name, array in {**batch.inputs, **ready.run(batch.inputs)}.items():
                if name in tensors and array.size and array.dtype.kind in "iufb":
                    filled = batch.rows is not None and array.ndim and len(array) == rows
                    value = tensors[name]
                    gathered.setdefault(name, _Gathered(value, known.get(value))).add(
                        array[: batch.rows] if filled else array
                    )
    except ExecutionError as error:
        raise ModelError(error.what, where=error.where, hint=error.hint) from error
    with np.errstate(invalid="ignore"):
        return tuple(gathered[name].statistics() for name in tensors if name in gathered)


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(each) for each in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class _Gathered:
    """Running statistics of one tensor: by channel and over all elements."""

    value: ir.Value
    known: Range | None
    count: int = 0
    each: int = 0
    parts: list[np.ndarray] = field(default_factory=list[np.ndarray])
    levels: set[float] = field(default_factory=set[float])
    at_ends: int = 0

    def add(self, array: np.ndarray) -> None:
        """Add one batch; means and sums of squares are merged in a numerically stable way."""
        wide = array.astype(np.float64)
        axis = channel_axis(self.value)
        if axis is None or dimension(self.value, axis) is None or wide.ndim <= axis:
            rows = wide.reshape(1, -1)
        else:
            rows = np.moveaxis(wide, axis, 0).reshape(wide.shape[axis], -1)
        with np.errstate(invalid="ignore"):
            mean, more = rows.mean(1), rows.shape[1]
            found = [rows.min(1), rows.max(1), (rows == 0).sum(1), mean, ((rows - mean[:, None]) ** 2).sum(1)]
        if self.parts:
            least, most, zeros, before, squares = self.parts
            step, total = mean - before, self.each + more
            found = [
                np.minimum(least, found[0]),
                np.maximum(most, found[1]),
                zeros + found[2],
                before + step * more / total,
                squares + found[4] + step**2 * (self.each * more / total),
            ]
        self.parts, self.count, self.each = found, self.count + array.size, self.each + more
        if self.known is not None and self.known.grid is not None:
            if len(self.levels) <= _MOST_LEVELS:
                self.levels |= set(np.unique(array).tolist())
            low, high = self.known.low.min(), self.known.high.max()
            self.at_ends += int(((array <= low) | (array >= high)).sum()) if low < high else 0

    def statistics(self) -> TensorStatistics:
        """Return the statistics of all batches."""
        least, most, zeros, mean, squares = self.parts
        grid = None if self.known is None else self.known.grid
        overall = float(mean.mean())
        spread = float((squares + self.each * (mean - overall) ** 2).sum()) / self.count
        return TensorStatistics(
            self.value.name or "",
            self.count,
            least,
            most,
            mean,
            np.sqrt(squares / self.each),
            zeros / self.each,
            overall,
            float(np.sqrt(spread)),
            None if grid is None else self.at_ends / self.count,
            len(self.levels) if 0 < len(self.levels) <= _MOST_LEVELS else None,
            None if grid is None else int((grid.high - grid.low).max()) + 1,
        )
