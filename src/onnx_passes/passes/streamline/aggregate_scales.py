"""Compute integers as integers, and aggregate scales and biases after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.analysis.streamlined import Reason, explain
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.tensor_types import set_sparsity, sparsity_of
from onnx_passes.graph.traits import is_product
from onnx_passes.numbers.range import Range
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.facts.sums import terms_of
from onnx_passes.ops.qonnx import DOMAIN
from onnx_passes.ops.semantics.exact import set_exact_value
from onnx_passes.passes.quant.stored_scales import multiples
from onnx_passes.passes.streamline import averages, choices, elementwise, movement, products
from onnx_passes.passes.streamline.form import FEWER_BITS, Form, FormBuilder
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

IntegerFormRule = Callable[[FormBuilder, ir.Node, Sequence[Form | None]], Form | list[Form] | Reason]
"""Builds the scaled-integer form of each result from the forms of the inputs, or returns the reason."""
INTEGER_FORMS: Interface[IntegerFormRule] = Interface("integer_form", "its scaled-integer form")

INTEGER_FORMS.attach({"Im2Col": movement.im2col, "MaxPoolNHWC": movement.maximum_last}, domains=(DOMAIN,))
_NOT_OF_DOUBLES = frozenset({"AveragePool", "GlobalMaxPool", "Resize"})
"""Operators that ONNX Runtime does not have for doubles."""
_LEFT = Reason("scales or biases of its inputs are not factored out", "run aggregate-scales")
_RECOVERABLE = Reason("its weights are integers times an unknown scale", "run recover-weight-scales")
INTEGER_FORMS.attach(
    {
        "Abs": choices.absolute,
        "Add": elementwise.add,
        "AveragePool": averages.average_pool,
        "BatchNormalization": elementwise.batch_normalization,
        "Clip": elementwise.clip,
        "Concat": movement.concat,
        "Conv": products.conv,
        "ConvTranspose": products.conv_transpose,
        "DepthToSpace": movement.move,
        "Div": elementwise.div,
        "Einsum": products.einsum,
        "Expand": movement.move,
        "Flatten": movement.move,
        "Gather": movement.move,
        "Gemm": products.gemm,
        "GlobalAveragePool": averages.global_average,
        "GlobalMaxPool": movement.maximum,
        "Identity": elementwise.same,
        "MatMul": products.matmul,
        "Max": choices.extreme,
        "MaxPool": movement.maximum,
        "Mean": elementwise.mean,
        "Min": choices.extreme,
        "Mul": elementwise.mul,
        "Neg": elementwise.neg,
        "Pad": movement.pad,
        "ReduceMax": choices.reduced_extreme,
        "ReduceMean": averages.reduce_mean,
        "ReduceMin": choices.reduced_extreme,
        "ReduceSum": averages.reduce_sum,
        "Relu": elementwise.relu,
        "Reshape": movement.move,
        "Resize": movement.resize,
        "Slice": movement.move,
        "SpaceToDepth": movement.move,
        "Split": movement.split,
        "Squeeze": movement.move,
        "Sub": elementwise.sub,
        "Sum": elementwise.total,
        "Tile": movement.move,
        "Transpose": movement.move,
        "Unsqueeze": movement.move,
        "Where": choices.where,
    }
)


@passes.verify.tolerance
@passes.register(tags=("streamline", "quantized"))
class AggregateScales(EditorPass):
    """Aggregate scales and biases after computations on integers, wherever the ranges of values allow it.

    Rewrites: ``Relu(BatchNorm(Conv(s * q, t * w)))`` → ``Relu(Conv(q, w) * S + B)``, for anything between quantizers:
              forks, joins of equal or integer-ratio scales, averages, maxima, movements, products of two activations.
              Integers that float32 cannot hold are computed in doubles, convolutions of them in parts.
    Refuses:  scales that vary along a sum, joins of scales that are not multiples of one another, integers that doubles
              cannot hold, and nonlinear operators: their values are floats again.
    Exactness: rounding. The exact values of scales and biases are stored with the constants, for the thresholds.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Find scaled-integer forms from the inputs on, then rewrite their consumers."""
        sweep = _Sweep(model, editor, ranges_of(model))
        sweep.find_forms()
        sweep.use_forms()


def reasons_of(model: ir.Model, ranges: Mapping[ir.Value, Range]) -> dict[ir.Node, Reason]:
    """Return the reason for every node that could be computed on integers and is not; the model stays unchanged."""
    sweep = _Sweep(model, Editor(model), ranges, with_folded=True)
    sweep.find_forms()
    sweep.make.op.discard()
    return sweep.reasons


class _Sweep:
    def __init__(
        self, model: ir.Model, editor: Editor, ranges: Mapping[ir.Value, Range], *, with_folded: bool = False
    ) -> None:
        """Prepare a sweep; ``with_folded`` also recovers quantized weights from constants."""
        self.model = model
        self.editor = editor
        self.make = FormBuilder(editor.builder(), ranges)
        self.forms: dict[ir.Value, Form] = {}
        self.reasons: dict[ir.Node, Reason] = {}
        self.with_folded = with_folded
        self.nodes = tuple(model.graph)
        self.everywhere = tuple(all_nodes(model.graph))

    def find_forms(self) -> None:
        """Find the scaled-integer form of every value, or the reason of its node."""
        for value in self.model.graph.inputs:
            self._take_as_integer(value)
        for node in self.nodes:
            rule = INTEGER_FORMS.get(node)
            if rule is None:
                for value in node.outputs:
                    self._take_as_integer(value)
                continue
            if all(self.make.number(value) is not None for value in node.inputs if value is not None):
                continue
            # A Gather from a constant table has indices without a form.
            if objection := self.editor.objection([node]):
                found = Reason(objection, "allow its rewriting")
            elif node.op_type != "Gather" and not any(value in self.forms for value in node.inputs):
                found = self.make.lacking(next((value for value in node.inputs if value is not None), None))
            else:
                found = self._found(node, rule)
            self.reasons[node] = found if isinstance(found, Reason) else self._left(node)
            if isinstance(found, Reason):
                self.editor.refuse(_rule_of(node), str(found), node)
            else:
                self.forms.update(zip(node.outputs, found if isinstance(found, list) else [found], strict=True))
        self.make.here = None

    def _found(self, node: ir.Node, rule: IntegerFormRule) -> Form | list[Form] | Reason:
        wide = not all(self.make.fits(value) for value in node.outputs) or self._takes_doubles(node)
        refused = wide and not self._may_be_wide(node)
        if refused and any(value is not None and self._is_folded(value) for value in node.inputs):
            # The range of the result is unknown, but the rule gives the reason why the quantizer was not recognised.
            found = rule(self.make, node, [self._form(value) for value in node.inputs])
            return found if isinstance(found, Reason) else _RECOVERABLE
        self.make.here, self.make.wide = node, wide and not refused
        found = rule(self.make, node, [self._form(value) for value in node.inputs])
        self.make.wide = False
        return self._too_large(node) if refused and not isinstance(found, Reason) else found

    def _takes_doubles(self, node: ir.Node) -> bool:
        forms = [self.forms[value] for value in node.inputs if value in self.forms]
        return any(form.integer.dtype is ir.DataType.DOUBLE for form in forms)

    def _may_be_wide(self, node: ir.Node) -> bool:
        """Return whether integers that floats cannot hold may be computed in doubles."""
        return node.op_type not in _NOT_OF_DOUBLES and all(self.make.fits_in_double(value) for value in node.outputs)

    def _left(self, node: ir.Node) -> Reason:
        """Return the reason why a node with a scaled-integer form does not use it yet."""
        if all(self.make.fits(value) for value in node.outputs):
            return _LEFT
        largest = int(max(self.make.largest(value) for value in node.outputs))
        what = "sums" if is_product(node) else "integers"
        return Reason(
            f"its {what} reach {largest:,}, more than floats hold", "run aggregate-scales, which uses doubles"
        )

    def _too_large(self, node: ir.Node) -> Reason:
        """Return the reason why a node with a scaled-integer form cannot use it."""
        largest = max(self.make.largest(value) for value in node.outputs)
        if not np.isfinite(largest) and is_product(node) and terms_of(node) is None:
            return Reason("the number of summed products is not known", "give inputs sizes that are numbers")
        if not np.isfinite(largest):
            return Reason("its integers may be more than doubles hold", FEWER_BITS)
        if node.op_type in _NOT_OF_DOUBLES:
            more = f"more than floats hold, and no runtime has {node.op_type} for doubles"
        else:
            more = "more than doubles hold"
        return Reason(f"its integers reach {int(largest):,}, {more}", FEWER_BITS)

    def _take_as_integer(self, value: ir.Value) -> None:
        known, length = self.make.known(value), rank(value)
        if known is None or length is None or known.integer_grid is None or known.is_point:
            return
        if value.dtype == ir.DataType.FLOAT and self.make.fits(value):
            self.forms[value] = Form(value, Reals.ones(length), Reals.zeros(length))

    def _form(self, value: ir.Value | None) -> Form | None:
        """Return the form of an input; constants are converted to integers on demand."""
        if value is None:
            return None
        if value in self.forms:
            return self.forms[value]
        known, shape, held = self.make.known(value), static_shape(value), constant(value)
        if known is None or shape is None or not known.is_point or value.dtype != ir.DataType.FLOAT:
            return None
        if known.grid is None:
            return self._folded(value, held) if self.with_folded and held is not None else None
        grid = known.grid.centred() or known.grid
        integers = np.broadcast_to(grid.low, shape)
        if held is not None and grid.is_integer:
            integer = value
        else:
            integer = self.make.constant(integers, f"{value.name}_integers")
            set_sparsity(integer, sparsity_of(value))
        form = Form(integer, Reals.of(grid.scale), Reals.of(grid.bias))
        self.forms[value] = form
        return form

    def _is_folded(self, value: ir.Value) -> bool:
        known = self.make.known(value)
        return self.with_folded and known is not None and known.grid is None and self._form(value) is not None

    def _folded(self, value: ir.Value, held: np.ndarray) -> Form | None:
        found = next((each for axis in (None, *range(held.ndim)) if (each := multiples(held, axis)) is not None), None)
        if found is None:
            return None
        integer = self.make.constant(found.integers, f"{value.name}_integers")
        form = self.forms[value] = Form(integer, Reals.of(found.scale).spread(held.ndim), Reals.zeros(held.ndim))
        return form

    def use_forms(self) -> None:
        """Rewrite nodes without a form, and graph outputs, to read floats built from integers."""
        used: dict[ir.Value, None] = {}
        for node in self.everywhere:
            if node.outputs[0] in self.forms and self.forms[node.outputs[0]].integer is not node.outputs[0]:
                continue
            used.update((value, None) for value in node.inputs if value is not None and self._has_other_form(value))
        used.update((value, None) for value in self.model.graph.outputs if self._has_other_form(value))
        for node, reason in self.reasons.items():
            explain(node, None if reason is _LEFT else reason)
        for text in self.make.roundings:
            self.editor.context.note(text)
        op = self.make.op
        floats = {value: self._as_float(value, self.forms[value]) for value in used}
        op.keep_only(list(floats.values()))
        for value, made in floats.items():
            if not self._use_form(value, made):
                break
        op.discard()

    def _use_form(self, value: ir.Value, made: ir.Value) -> bool:
        """Replace a value by the float built from its integer, as one rewrite that can be verified by itself."""
        node = value.producer()
        assert node is not None
        with self.editor.rewrite(_rule_of(node), node, matched=self._cone(node), many=True) as r:
            r.op.take(self.make.op, made)
            r.replace(value, made)
        return r.applied

    def _cone(self, node: ir.Node) -> tuple[ir.Node, ...]:
        """Return the nodes that the scaled-integer form of a result replaces, in graph order."""
        found, waiting = dict[ir.Node, None](), [node]
        while waiting:
            here = waiting.pop()
            found[here] = None
            before = [value.producer() for value in here.inputs if value is not None and self._has_other_form(value)]
            waiting.extend(producer for producer in before if producer is not None and producer not in found)
        return tuple(inner for inner in self.nodes if inner in found)

    def _has_other_form(self, value: ir.Value) -> bool:
        form = self.forms.get(value)
        if form is None or form.integer is value or self.make.number(value) is not None:
            return False
        return not self._is_in_form(value, form)

    def _is_in_form(self, value: ir.Value, form: Form) -> bool:
        """Return whether a value is already computed as integer times scale plus bias."""
        found: ir.Value | None = value
        for operator, array, neutral in (("Add", form.bias, 0), ("Mul", form.scale, 1)):
            if array.is_everywhere(neutral):
                continue
            node = None if found is None else found.producer()
            if node is None or node.op_type != operator or not _holds(node.inputs[1], array):
                return False
            found = node.inputs[0]
        return found is form.integer

    def _as_float(self, value: ir.Value, form: Form) -> ir.Value:
        result = form.integer
        if result.dtype is ir.DataType.DOUBLE:
            result = self.make.node("Cast", [result], value, [ir.AttrInt64("to", ir.DataType.FLOAT)])
        for operator, array, neutral in (("Mul", form.scale, 1), ("Add", form.bias, 0)):
            if not array.is_everywhere(neutral):
                held = array.near.astype(np.float32)
                parameter = self.make.constant(held, f"{value.name}_{'scale' if operator == 'Mul' else 'bias'}")
                set_exact_value(parameter, array)
                result = self.make.node(operator, [result, parameter], value)
        if result is form.integer and result.producer() is None:
            result = self.make.node("Identity", [result], value)
        return result


def _rule_of(node: ir.Node) -> str:
    return f"integer form of {node.op_type}"


def _holds(value: ir.Value | None, array: Reals) -> bool:
    held = constant(value)
    return held is not None and held.shape == array.shape and bool((held == array.near.astype(np.float32)).all())
