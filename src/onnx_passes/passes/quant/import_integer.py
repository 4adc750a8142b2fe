"""Read a network of integer tensors: floats that hold the integers, and thresholds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.sums import Bounds, greatest_sum, size_of
from onnx_passes.datatypes.limits import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.export.integer_elementwise import MOVEMENTS
from onnx_passes.passes.export.twins import Twins
from onnx_passes.passes.quant.step_regions import Steps, find_region
from onnx_passes.passes.quant.widths import type_bounds
from onnx_passes.passes.thresholds.tail import Tail
from onnx_passes.passes.thresholds.writing import LevelSteps, is_exact, write
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32)
_NO_RULE = "it is not one of those that integers are computed with"
_NO_TWIN = "its inputs do not come from thresholds"
_TOO_LARGE = "its results may be integers that floats round"
_Found = tuple[ir.Value, Bounds]
_Rule = Callable[["_Floats", ir.Node], "_Found | str"]


@passes.verify.equality
@passes.register(tags=("quant",))
class ImportInteger(EditorPass):
    """Lift a network of integer tensors to floats that hold the integers, with thresholds between them.

    What export-integer writes comes back as what streamline had made.

    Rewrites: comparisons with thresholds, tables and searches → ``MultiThreshold``; ``MatMulInteger``,
              ``ConvInteger`` and ``MatMul`` of int32 behind them → ``MatMul`` and ``Conv`` of floats, and sums,
              pooling and movements likewise.
    Refuses:  sums that floats may round; tables whose index comes from floats by more than a growing function;
              products whose inputs or zero points are computed in another way. What is before the first thresholds.
    Exactness: bit-exact, but for NaN.
    """

    needs = ("lift-constants", "shape-inference")
    followed_by = ("cleanup", "shape-inference")
    fast_math = ("nnan", "ninf")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert node by node, from the first thresholds on."""
        regions = _regions(model.graph)
        if regions:
            _Floats(editor, regions).convert_all("floats that hold integers")


def _regions(graph: ir.Graph) -> dict[ir.Node, Tail]:
    """Find all regions that count thresholds, by the node they end with; none is part of another."""
    place = {node: number for number, node in enumerate(graph)}
    found, inner = dict[ir.Node, Tail](), set[ir.Node]()
    for node in reversed(graph):
        if node in inner or node.outputs[0].dtype not in _INTEGERS:
            continue
        region = find_region(node, place)
        if region is not None:
            found[node] = region
            inner.update(region.nodes)
    return found


class _Floats(Twins):
    """Knows which integers are cast from floats, and which integers these can be."""

    def __init__(self, editor: Editor, regions: dict[ir.Node, Tail]) -> None:
        super().__init__(editor)
        self._regions = regions
        self._inner = {node for end, region in regions.items() for node in region.nodes if node is not end}
        self._bounds: dict[ir.Value, Bounds] = {}
        self._now: dict[ir.Value, ir.Value] = {}

    def form(self, node: ir.Node) -> ir.Value | str:
        """Build floats for the result of a node."""
        if node in self._inner:
            return _NO_RULE
        region = self._regions.get(node)
        rule = _RULES.get(node.op_type) if not node.domain and len(node.outputs) == 1 else None
        if region is None and rule is None:
            return _NO_RULE
        found = self._counted(region) if region is not None else rule(self, node) if rule is not None else _NO_RULE
        if isinstance(found, str):
            return found
        self._bounds[found[0]] = found[1]
        return found[0]

    def _counted(self, region: Tail) -> _Found | str:
        base = self._now.get(region.base, region.base)
        known: tuple[ir.Value, Bounds | None] | None = (base, None)
        if base.dtype is not ir.DataType.FLOAT:
            known = self.given(base)
        if known is None:
            return _NO_TWIN
        found = Steps(region, base, known[1]).find()
        if isinstance(found, str):
            return found
        steps, levels = found
        if isinstance(steps, LevelSteps) and not is_exact(steps, levels):
            return "its steps do not add up exactly"
        low = int(levels.bias)
        return write(self.op, known[0], region, steps, levels), (low, low + levels.steps * int(levels.scale))

    def given(self, value: ir.Value | None) -> _Found | None:
        """Return the floats of integers and their bounds: a twin, a constant, or the input of the model."""
        if value is None:
            return None
        twin, held = self.twin(value), constant(value)
        if twin is not None:
            return twin, self._bounds[twin]
        if held is not None:
            bounds = int(held.min(initial=0)), int(held.max(initial=0))
            name = f"{value.name}_float"
            make: Callable[[], ir.Value] = lambda: self.op.initializer(held.astype(np.float32), name)  # noqa: E731
            return (self.once(value, make), bounds) if size_of(bounds) <= EXACT_IN_FLOAT else None
        dtype = value.dtype
        if not value.is_graph_input() or dtype not in (ir.DataType.INT8, ir.DataType.UINT8):
            return None
        return self.once(value, lambda: self.op.Cast(value, to=ir.DataType.FLOAT)), type_bounds(ir.DataType(dtype))

    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Return floats as the integers that an old value is."""
        return twin if old.dtype is twin.dtype else self.op.Cast(twin, to=old.dtype)

    def replaced(self, old: ir.Value, new: ir.Value, twin: ir.Value) -> None:
        """Note what stands for a value of the original model."""
        super().replaced(old, new, twin)
        self._now[old] = new
        if twin.shape is None:
            twin.shape = old.shape

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Say what keeps integers from going on."""
        if reason == _TOO_LARGE:
            self.editor.context.note(f"{node.op_type} '{node.name}' stays: {reason}")


def _within(value: ir.Value, bounds: Bounds) -> _Found | str:
    return (value, bounds) if size_of(bounds) <= EXACT_IN_FLOAT else _TOO_LARGE


def _sums(floats: _Floats, node: ir.Node) -> _Found | str:
    """Multiply and add up, without zero points, which are taken off before."""
    operator, axes = ("Conv", None) if node.op_type == "ConvInteger" else ("MatMul", -2)
    operands: list[_Found] = []
    for index in (0, 1):
        zero = node.inputs[index + 2] if len(node.inputs) > index + 2 else None
        found, held = floats.given(node.inputs[index]), None if zero is None else constant(zero)
        if found is None or (zero is not None and (held is None or held.size != 1)):
            return _NO_TWIN
        operands.append(_shifted(floats, found, 0 if held is None else int(held.reshape(-1)[0])))
    (x, left), (w, right) = operands
    weights = constant(w)
    if weights is not None:
        summed = tuple(range(1, weights.ndim)) if axes is None else (max(weights.ndim + axes, 0),)
        largest = greatest_sum(weights, left, summed)
    else:
        shape = static_shape(x)
        if axes is None or shape is None:
            return _TOO_LARGE
        largest = shape[-1] * size_of(left) * size_of(right)
    result: ir.Value = getattr(floats.op, operator)(x, w, **node.attributes)
    return _within(result, (-largest, largest))


def _shifted(floats: _Floats, found: _Found, zero: int) -> _Found:
    value, (low, high) = found
    if not zero:
        return found
    held = constant(value)
    bounds = low - zero, high - zero
    if held is not None:
        return floats.op.initializer(held - np.float32(zero), f"{value.name}_centered"), bounds
    return floats.op.Sub(value, np.float32(zero)), bounds


def _arithmetic(floats: _Floats, node: ir.Node) -> _Found | str:
    first, second = (floats.given(value) for value in node.inputs)
    if first is None or second is None:
        return _NO_TWIN
    (a, left), (b, right) = first, second
    if node.op_type == "Mul":
        ends = [one * other for one in left for other in right]
    elif node.op_type == "Add":
        ends = [left[0] + right[0], left[1] + right[1]]
    else:
        ends = [left[0] - right[1], left[1] - right[0]]
    return _within(floats.op.op(node.op_type, a, b), (min(ends), max(ends)))


def _relu(floats: _Floats, node: ir.Node) -> _Found | str:
    found, zero = floats.given(node.inputs[0]), constant(node.inputs[1]) if len(node.inputs) == 2 else None
    if found is None or zero is None or zero.any():
        return _NO_TWIN
    return floats.op.Relu(found[0]), (max(found[1][0], 0), max(found[1][1], 0))


def _reduced(floats: _Floats, node: ir.Node) -> _Found | str:
    found = floats.given(node.inputs[0])
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if found is None or before is None or after is None or not np.prod(after):
        return _NO_TWIN
    amount = int(np.prod(before)) // int(np.prod(after))
    result = floats.op.like(node, [found[0], *node.inputs[1:]])
    return _within(result, (amount * min(found[1][0], 0), amount * max(found[1][1], 0)))


def _moved(floats: _Floats, node: ir.Node) -> _Found | str:
    found = floats.given(node.inputs[0])
    return _NO_TWIN if found is None else (floats.op.like(node, [found[0], *node.inputs[1:]]), found[1])


def _padded(floats: _Floats, node: ir.Node) -> _Found | str:
    found, held = floats.given(node.inputs[0]), constant(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(())
    if found is None or held is None or rank(node.inputs[0]) is None:
        return _NO_TWIN
    low, high = found[1]
    filling = int(held.reshape(-1)[0])
    inputs = [found[0], node.inputs[1], np.float32(filling), *node.inputs[3:]]
    return floats.op.like(node, inputs), (min(low, filling), max(high, filling))


def _joined(floats: _Floats, node: ir.Node) -> _Found | str:
    found = [one for value in node.inputs if (one := floats.given(value)) is not None]
    if len(found) != len(node.inputs):
        return _NO_TWIN
    result = floats.op.like(node, [value for value, _ in found])
    return result, (min(low for _, (low, _) in found), max(high for _, (_, high) in found))


def _cast(floats: _Floats, node: ir.Node) -> _Found | str:
    found, to = floats.given(node.inputs[0]), node.outputs[0].dtype
    if found is None or to is None:
        return _NO_TWIN
    if to.is_integer():
        low, high = type_bounds(to) if to is not ir.DataType.INT32 else (-EXACT_IN_FLOAT, EXACT_IN_FLOAT)
        return found if low <= found[1][0] and found[1][1] <= high else _TOO_LARGE
    return found if to in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else _NO_RULE


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("Add", "Mul", "Sub"), _arithmetic),
    **dict.fromkeys(("ConvInteger", "MatMul", "MatMulInteger"), _sums),
    **dict.fromkeys((*MOVEMENTS, "MaxPool", "Resize"), _moved),
    "Cast": _cast,
    "Concat": _joined,
    "Max": _relu,
    "Pad": _padded,
    "ReduceSum": _reduced,
}
