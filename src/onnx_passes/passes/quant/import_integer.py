"""Import networks of integer tensors as floats that hold integers, with thresholds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import Ranges
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.facts.sums import Bounds
from onnx_passes.passes.export.integer_elementwise import MOVEMENTS
from onnx_passes.passes.integers.containers import container, held_integers, is_exact_product
from onnx_passes.passes.integers.twins import Twins
from onnx_passes.passes.quant.step_regions import RegionSteps, find_region
from onnx_passes.passes.thresholds.nodes import holds_integers
from onnx_passes.passes.thresholds.tail import Tail
from onnx_passes.passes.thresholds.writing import LevelSteps, is_exact, write
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32)
_NO_RULE = "its operator has no rule for integers"
_NO_TWIN = "its inputs do not come from thresholds"
_TOO_LARGE = "its results may be integers that floats round"
FloatForm = Callable[["_Floats", ir.Node], "ir.Value | str"]
"""Builds floats that hold the integers of a node's result, or returns the reason why it cannot."""
FLOAT_FORMS: Interface[FloatForm] = Interface("float_form", "its equivalent on floats that hold integers")


@passes.verify.equality
@passes.register(tags=("quant",))
class ImportInteger(EditorPass):
    """Lift a network of integer tensors to floats that hold the integers, with thresholds in between.

    Networks written by export-integer return to the result of streamline.

    Rewrites: comparisons with thresholds, tables and searches → ``MultiThreshold``; ``MatMulInteger``, ``ConvInteger``
              and ``MatMul`` of int32 after them → ``MatMul`` and ``Conv`` of floats; sums, pooling and movements
              likewise.
    Refuses:  sums that floats may round; tables whose index is not a monotone function of floats; products with inputs
              or zero points computed in another way. Nodes before the first thresholds stay.
    Exactness: bit-exact, except for NaN.
    """

    needs = ("lift-constants", "shape-inference")
    followed_by = ("cleanup", "shape-inference")
    fast_math = ("nnan", "ninf")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert node by node, from the first thresholds on."""
        regions = _regions(model.graph)
        if regions:
            _Floats(editor, regions, Ranges.of_inputs(model.graph)).convert_all("floats that hold integers")


def _regions(graph: ir.Graph) -> dict[ir.Node, Tail]:
    """Return all disjoint regions that compute thresholds, by their last node."""
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
    """Values of integers that are cast from floats, and the ranges of these."""

    def __init__(self, editor: Editor, regions: dict[ir.Node, Tail], ranges: Ranges) -> None:
        super().__init__(editor)
        self._regions = regions
        self._inner = {node for end, region in regions.items() for node in region.nodes if node is not end}
        self._ranges = ranges
        self._now: dict[ir.Value, ir.Value] = {}

    def form(self, node: ir.Node) -> ir.Value | str:
        """Build floats for the result of a node, or return the reason why that is impossible."""
        region = self._regions.get(node)
        form = None if node in self._inner or len(node.outputs) != 1 else FLOAT_FORMS.get(node)
        found = self._counted(region) if region is not None else _NO_RULE if form is None else form(self, node)
        if isinstance(found, str):
            self._ranges.visit(node)
            return found
        found.dtype, found.shape = ir.DataType.FLOAT, found.shape or node.outputs[0].shape
        for new in self.op.nodes:
            self._ranges.add(new)
        products = [new for new in self.op.nodes if new.op_type in ("Conv", "MatMul")]
        is_exact_sum = all(is_exact_product(new, self.bounds) for new in products)
        return found if is_exact_sum and self.bounds(found) is not None else _TOO_LARGE

    def bounds(self, value: ir.Value | None) -> Bounds | None:
        """Return the bounds of floats that hold integers."""
        return held_integers(value, self._ranges.known)

    def _counted(self, region: Tail) -> ir.Value | str:
        base = self._now.get(region.base, region.base)
        x = base if base.dtype is ir.DataType.FLOAT else self.given(base)
        if x is None:
            return _NO_TWIN
        found = RegionSteps(region, base, self.bounds(x) if holds_integers(self._ranges.of(x)) else None).find()
        if isinstance(found, str):
            return found
        steps, levels = found
        if isinstance(steps, LevelSteps) and not is_exact(steps, levels):
            return "its steps do not accumulate exactly"
        return write(self.op, x, region, steps, levels)

    def given(self, value: ir.Value | None) -> ir.Value | None:
        """Return the floats of integers: a twin, a constant, or an input of the model; None if there are none."""
        if value is None:
            return None
        twin, held = self.twin(value), constant(value)
        if twin is not None:
            return twin
        if held is not None:
            name = f"{value.name}_float"
            return self.once(value, lambda: self.op.initializer(held.astype(np.float32), name))
        if not value.is_graph_input():
            return None
        if value.dtype in (ir.DataType.INT8, ir.DataType.UINT8):
            return self.once(value, lambda: self.op.Cast(value, to=ir.DataType.FLOAT))
        return None if self.bounds(value) is None else value

    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Cast floats back to the type of the original value."""
        return twin if old.dtype is twin.dtype else self.op.Cast(twin, to=old.dtype)

    def replaced(self, old: ir.Value, new: ir.Value, twin: ir.Value) -> None:
        """Record the replacement of a value of the original model."""
        super().replaced(old, new, twin)
        self._now[old] = new

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report sums that are too large."""
        if reason == _TOO_LARGE:
            self.editor.context.note(f"{name_of(node)} stays: {reason}")


def _product(floats: _Floats, node: ir.Node) -> ir.Value | str:
    """Build the product of the operands with their zero points subtracted."""
    operands: list[ir.Value] = []
    for index in (0, 1):
        zero = node.inputs[index + 2] if len(node.inputs) > index + 2 else None
        found, held = floats.given(node.inputs[index]), np.zeros(1) if zero is None else constant(zero)
        if found is None or held is None or held.size != 1:
            return _NO_TWIN
        operands.append(_centered(floats, found, np.float32(held.reshape(-1)[0])))
    x, w = operands
    return (floats.op.Conv if node.op_type == "ConvInteger" else floats.op.MatMul)(x, w, **node.attributes)


def _centered(floats: _Floats, value: ir.Value, zero: np.float32) -> ir.Value:
    held = constant(value)
    if not zero:
        return value
    if held is not None:
        return floats.op.initializer(held - zero, f"{value.name}_centered")
    found = floats.once((value, float(zero)), lambda: floats.op.Sub(value, zero))
    found.shape = value.shape
    return found


def _arithmetic(floats: _Floats, node: ir.Node) -> ir.Value | str:
    a, b = (floats.given(value) for value in node.inputs)
    if a is None or b is None:
        return _NO_TWIN
    found = _by_whole_weights(floats, a, b) if node.op_type == "Add" else None
    return found or floats.op.op(node.op_type, a, b)


def _by_whole_weights(floats: _Floats, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Merge a sum of convolutions of one image whose weights are parts of larger ones into one convolution."""
    one, other = a.producer(), b.producer()
    if one is None or other is None or {one.op_type, other.op_type} != {"Conv"} or one.inputs[0] is not other.inputs[0]:
        return None
    given = [{name: each.value for name, each in node.attributes.items()} for node in (one, other)]
    part, rest = constant(one.inputs[1]), constant(other.inputs[1])
    if given[0] != given[1] or part is None or rest is None:
        return None
    weights = floats.op.initializer(part + rest, f"{a.name}_weights")
    return floats.op.Conv(one.inputs[0], weights, **one.attributes)


def _relu(floats: _Floats, node: ir.Node) -> ir.Value | str:
    found, zero = floats.given(node.inputs[0]), constant(node.inputs[1]) if len(node.inputs) == 2 else None
    return _NO_TWIN if found is None or zero is None or zero.any() else floats.op.Relu(found)


def _moved(floats: _Floats, node: ir.Node) -> ir.Value | str:
    found = floats.given(node.inputs[0])
    return _NO_TWIN if found is None else floats.op.like(node, [found, *node.inputs[1:]])


def _padded(floats: _Floats, node: ir.Node) -> ir.Value | str:
    found, filling = floats.given(node.inputs[0]), node.inputs[2] if len(node.inputs) > 2 else None
    if found is None:
        return _NO_TWIN
    inputs = [found, node.inputs[1], floats.given(filling), *node.inputs[3:]]
    return floats.op.like(node, inputs if filling is not None else inputs[:2])


def _joined(floats: _Floats, node: ir.Node) -> ir.Value | str:
    found = [floats.given(value) for value in node.inputs]
    return _NO_TWIN if None in found else floats.op.like(node, found)


def _cast(floats: _Floats, node: ir.Node) -> ir.Value | str:
    found, to = floats.given(node.inputs[0]), node.outputs[0].dtype
    bounds = floats.bounds(found)
    if found is None or bounds is None or to is None:
        return _NO_TWIN
    if to.is_integer():
        return found if container(bounds, (to,)) is not None else _TOO_LARGE
    return found if to in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else _NO_RULE


FLOAT_FORMS.attach(
    {
        **dict.fromkeys(("Add", "Mul", "Sub"), _arithmetic),
        **dict.fromkeys(("ConvInteger", "MatMul", "MatMulInteger"), _product),
        **dict.fromkeys((*MOVEMENTS, "MaxPool", "ReduceSum", "Resize"), _moved),
        "Cast": _cast,
        "Concat": _joined,
        "Max": _relu,
        "Pad": _padded,
    }
)
