"""Keep the dimension names of the interface: names that inference generates last for one run only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.records import RunRecord
from onnx_passes.graph import annotations

_MADE_UP = re.compile(r"\b_d\d+\b")
"""Names that shape inference generates for unnamed or unknown dimensions."""

Dimension = int | ir.SymbolicDim


class InterfaceNames(Instrument):
    """Restores the original dimension names of inputs and outputs after a run.

    Results of the run stay: numbers, and names of the model or of a pass. Inside the model, expressions in generated
    names of input dimensions become anonymous, too, as the names no longer exist.
    """

    def __init__(self) -> None:
        self._before: dict[str | None, Sequence[Dimension]] = {}
        self._own: set[str] = set()

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Record the interface."""
        interface = (*model.graph.inputs, *model.graph.outputs)
        self._before = {value.name: tuple(value.shape) for value in interface if value.shape is not None}
        self._own = {name for shape in self._before.values() for dim in shape for name in _made_up(dim)}

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Restore the names of the interface."""
        lost = {name for value in model.graph.inputs for dim in value.shape or () for name in self._lost(dim)}
        for value in (*model.graph.inputs, *model.graph.outputs):
            before = self._before.get(value.name, ())
            _rename(value, lambda axis, dim, before=before: _as_before(before, axis) if self._lost(dim) else dim)
        if lost:
            for value in annotations.values(model.graph):
                _rename(value, lambda _, dim: None if lost.intersection(_made_up(dim)) else dim)

    def _lost(self, dim: Dimension) -> set[str]:
        return {*_made_up(dim)} - self._own


def _made_up(dim: Dimension) -> Sequence[str]:
    return _MADE_UP.findall(dim.value) if isinstance(dim, ir.SymbolicDim) and dim.value else ()


def _as_before(before: Sequence[Dimension], axis: int) -> Dimension | None:
    """Return the original dimension unless it was a number, as the axes have moved then."""
    dim = before[axis] if axis < len(before) else None
    return None if isinstance(dim, int) and dim >= 0 else dim


def _rename(value: ir.Value, change: Callable[[int, Dimension], Dimension | None]) -> None:
    shape = value.shape
    dims = [change(axis, dim) for axis, dim in enumerate(shape or ())]
    if shape is not None and any(new is not old for new, old in zip(dims, shape, strict=True)):
        value.shape = ir.Shape(dims, denotations=[shape.get_denotation(axis) for axis in range(len(shape))])
