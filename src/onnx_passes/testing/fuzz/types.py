"""Element types: values that must share one, by the schemas of their operators."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import onnx_ir as ir

from onnx_passes.testing.fuzz.draws import Draws, UnbuildableError
from onnx_passes.testing.fuzz.hints import Hints
from onnx_passes.testing.fuzz.sketch import Op, Sketch

_D = ir.DataType
_USUAL = (
    *(_D.FLOAT,) * 7,
    *(_D.DOUBLE, _D.INT32, _D.INT64, _D.FLOAT16, _D.INT8, _D.UINT8, _D.BOOL),
    *(_D.DOUBLE, _D.INT32, _D.INT64, _D.BFLOAT16),
)
_RARE = (_D.INT16, _D.UINT16, _D.UINT32, _D.UINT64, _D.STRING)
_POOL = frozenset(_USUAL) | frozenset(_RARE)
_FLOATS = frozenset({_D.FLOAT, _D.DOUBLE, _D.FLOAT16, _D.BFLOAT16})
_UNSIGNED = frozenset({_D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64, _D.BOOL})


class Types:
    """Equivalence classes of values by type, and the types that each class allows."""

    def __init__(self, sketch: Sketch, draws: Draws, hints: Hints) -> None:
        self._draws = draws
        self._hints = frozenset(_D.from_numpy(np.dtype(name)) for name in hints.dtypes)
        self._parent: dict[Hashable, Hashable] = {}
        self._allowed: dict[Hashable, frozenset[ir.DataType]] = {}
        self._chosen: dict[Hashable, ir.DataType] = {}
        self._labels: dict[Hashable, str] = {}
        for op in sketch.ops:
            self._relate(op)
        for leaf in sketch.leaves():
            if leaf.fixed is not None:
                self._narrow(leaf, _types_of_number(leaf.fixed))

    def of(self, value: Hashable) -> ir.DataType:
        """Return the type of a value, chosen on first use."""
        root = self._find(value)
        if root not in self._chosen:
            allowed = self._allowed[root] & _POOL
            usual = [dtype for dtype in _USUAL if dtype in allowed]
            label = self._labels.setdefault(root, f"dtype:{len(self._labels)}")
            hinted = [dtype for dtype in usual if dtype in self._hints]
            rare = [dtype for dtype in _RARE if dtype in allowed]
            options = hinted or (usual + rare if self._draws.every_type else usual) or rare
            self._chosen[root] = self._draws.choose(label, options)
        return self._chosen[root]

    def variable(self, op: Op, name: str) -> ir.DataType:
        """Return the type of a type variable of an operator."""
        return self.of((op, name))

    def _relate(self, op: Op) -> None:
        known = op.signature
        if known is None:
            self._narrow((op, "T"), _POOL - {_D.STRING})
            for value in (*op.inputs, *(op.result(i) for i in range(len(op.pattern.outputs)))):
                if value is not None:
                    self._join((op, "T"), value)
            return
        for name, allowed in known.allowed.items():
            # Variables that may also be sequences are not restricted.
            if allowed:
                self._narrow((op, name), allowed)
        for variables, slots, variadic in (
            (known.inputs, list(op.inputs), known.variadic_inputs),
            (known.outputs, [op.result(i) for i in range(len(op.pattern.outputs))], known.variadic_outputs),
        ):
            for index, slot in enumerate(slots):
                if slot is None:
                    continue
                if index >= len(variables) and not variadic:
                    raise UnbuildableError(f"{op.op_type} has no parameter {index}")
                variable = variables[min(index, len(variables) - 1)] if variables else None
                if variable is not None:
                    self._join((op, variable), slot)
        self._fix_cast(op)

    def _fix_cast(self, op: Op) -> None:
        """Set the type of the result of Cast to the target of the pattern."""
        target = getattr(op.pattern.attributes.get("to"), "_value", None)
        if op.op_type == "Cast" and isinstance(target, int):
            self._narrow(op.result(0), {_D(target)})

    def _find(self, item: Hashable) -> Hashable:
        while (parent := self._parent.setdefault(item, item)) is not item:
            item = parent
        self._allowed.setdefault(item, _POOL)
        return item

    def _join(self, a: Hashable, b: Hashable) -> None:
        first, second = self._find(a), self._find(b)
        if first is not second:
            self._parent[second] = first
            self._narrow(first, self._allowed[second])

    def _narrow(self, item: Hashable, allowed: Iterable[ir.DataType]) -> None:
        root = self._find(item)
        self._allowed[root] = self._allowed[root] & frozenset(allowed)
        if not self._allowed[root]:
            raise UnbuildableError("no type fits all operators")


def _types_of_number(number: object) -> frozenset[ir.DataType]:
    """Return the types that can hold a number of the pattern."""
    values = np.asarray(number, np.float64)
    if (values != np.rint(values)).any():
        return _FLOATS
    return _POOL - _UNSIGNED if (values < 0).any() else _POOL - {_D.STRING}
