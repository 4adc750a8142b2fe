"""Let integers be computed as integers, and bring scales and biases together behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.records import Application
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import remove_if_dead, replace_value
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.tensor_types import set_sparsity, sparsity_of
from onnx_passes.ops.qonnx import DOMAIN
from onnx_passes.passes.streamline import averages, choices, elementwise, movement, products
from onnx_passes.passes.streamline.form import Form, Workshop

Rule = Callable[[Workshop, ir.Node, Sequence[Form | None]], Form | list[Form] | None]

_SOURCE = __file__
_QUANTIZED: dict[str, Rule] = {"Im2Col": movement.im2col, "MaxPoolNHWC": movement.maximum_last}
"""Rules for operators of QONNX."""
_NOT_OF_DOUBLES = frozenset({"AveragePool", "GlobalMaxPool", "Resize"})
"""Operators that ONNX Runtime has not for doubles."""
RULES: dict[str, Rule] = {
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
_RULES_OF = {"": RULES, DOMAIN: _QUANTIZED}


@passes.verify.tolerance
@passes.register(tags=("streamline", "quantized"))
class AggregateScales(Transformation):
    """Compute on integers wherever the ranges of values allow it; one scale and one bias remain behind them.

    Rewrites: ``Relu(BatchNorm(Conv(s * q, t * w)))`` → ``Relu(Conv(q, w) * S + B)``, whatever lies between quantizers:
              forks, joins of equal or integer-ratio scales, averages, maxima, movements, products of two activations.
              Integers that float32 cannot hold are computed in doubles, convolutions of them in parts.
    Refuses:  scales that vary along a sum, joins whose scales are no multiples of one another, integers that doubles
              cannot hold, and what is not linear: there values are floats again.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Find integer forms from the inputs on, then let everything else use them."""
        sweep = _Sweep(model)
        sweep.find_forms()
        return PassResult(model, modified=sweep.use_forms(context))


class _Sweep:
    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.shop = Workshop(model, ranges_of(model))
        self.forms: dict[ir.Value, Form] = {}
        self.nodes = tuple(model.graph)
        self.everywhere = tuple(all_nodes(model.graph))

    def find_forms(self) -> None:
        """Give every value an integer form that has one."""
        for value in self.model.graph.inputs:
            self._take_as_integer(value)
        for node in self.nodes:
            rule = _RULES_OF.get(node.domain, {}).get(node.op_type)
            if rule is None:
                for value in node.outputs:
                    self._take_as_integer(value)
                continue
            if all(self.shop.number(value) is not None for value in node.inputs if value is not None):
                continue
            # A table of constants is looked up by what has no form.
            known = node.op_type == "Gather" or any(value in self.forms for value in node.inputs)
            wide = not all(self.shop.fits(value) for value in node.outputs) or self._takes_doubles(node)
            if not known or (wide and not self._may_be_wide(node)):
                continue
            forms = [self._form(value) for value in node.inputs]
            self.shop.here, self.shop.wide = node, wide
            found = rule(self.shop, node, forms)
            if found is not None:
                self.forms.update(zip(node.outputs, found if isinstance(found, list) else [found], strict=True))
            self.shop.wide = False
        self.shop.here = None

    def _takes_doubles(self, node: ir.Node) -> bool:
        forms = [self.forms[value] for value in node.inputs if value in self.forms]
        return any(form.integer.dtype is ir.DataType.DOUBLE for form in forms)

    def _may_be_wide(self, node: ir.Node) -> bool:
        """Tell whether integers that floats cannot hold are computed in doubles."""
        return node.op_type not in _NOT_OF_DOUBLES and all(self.shop.fits_in_double(value) for value in node.outputs)

    def _take_as_integer(self, value: ir.Value) -> None:
        known, length = self.shop.known(value), rank(value)
        if known is None or length is None or known.integer_grid is None or known.is_point:
            return
        if value.dtype == ir.DataType.FLOAT and self.shop.fits(value):
            self.forms[value] = Form(value, np.ones((1,) * length), np.zeros((1,) * length))

    def _form(self, value: ir.Value | None) -> Form | None:
        """Return the form of an input; constants are written as integers when they are needed."""
        if value is None:
            return None
        if value in self.forms:
            return self.forms[value]
        known, shape = self.shop.known(value), static_shape(value)
        if (
            known is None
            or shape is None
            or known.grid is None
            or not known.is_point
            or value.dtype != ir.DataType.FLOAT
        ):
            return None
        grid = known.grid.centred() or known.grid
        integers = np.broadcast_to(grid.low, shape)
        held = constant(value)
        if held is not None and grid.is_integer:
            integer = value
        else:
            integer = self.shop.constant(integers, f"{value.name}_integers")
            set_sparsity(integer, sparsity_of(value))
        form = Form(integer, grid.scale, grid.bias)
        self.forms[value] = form
        return form

    def use_forms(self, context: Context) -> bool:
        """Let nodes without a form, and outputs of the graph, see floats made from integers; remove what is left."""
        users: dict[ir.Value, list[tuple[ir.Node, int]]] = {}
        for node in self.everywhere:
            if node.outputs[0] in self.forms and self.forms[node.outputs[0]].integer is not node.outputs[0]:
                continue
            for index, value in enumerate(node.inputs):
                if value is not None and self._has_other_form(value):
                    users.setdefault(value, []).append((node, index))
        for value in self.model.graph.outputs:
            if self._has_other_form(value):
                users.setdefault(value, [])
        used = [value for value, places in users.items() if self._use_form(value, places, context)]
        removed = remove_if_dead([*self.nodes[::-1], *list(self.shop.made)])
        self.shop.tidy()
        return bool(used) or any(node not in self.shop.made for node in removed)

    def _use_form(self, value: ir.Value, places: list[tuple[ir.Node, int]], context: Context) -> bool:
        """Let the users of a value see a float made from its integer, as one rewrite that can be checked by itself."""
        node = value.producer()
        assert node is not None
        made = self._as_float(value, self.forms[value])
        last = made.producer()
        application = Application(
            number=context.next_number(),
            step=context.record,
            rule=f"integer form of {node.op_type}",
            source=_SOURCE,
            graph=self.model.graph,
            root=node,
            matched=self._cone(node),
            added=() if last is None else (last,),
            replaced=((value, made),),
            initializers=(),
            many=True,
        )
        if context.before_rewrite(application) is not None:
            return False
        for user, index in places:
            user.replace_input_with(index, made)
        if value.is_graph_output():
            replace_value(value, made, self.shop.names)
        context.after_rewrite(application)
        return True

    def _cone(self, node: ir.Node) -> tuple[ir.Node, ...]:
        """Return the nodes that the integer form of a result stands for: from the last integers on, in order."""
        found, waiting = dict[ir.Node, None](), [node]
        while waiting:
            here = waiting.pop()
            found[here] = None
            before = [value.producer() for value in here.inputs if value is not None and self._has_other_form(value)]
            waiting.extend(producer for producer in before if producer is not None and producer not in found)
        return tuple(inner for inner in self.nodes if inner in found)

    def _has_other_form(self, value: ir.Value) -> bool:
        form = self.forms.get(value)
        if form is None or form.integer is value or self.shop.number(value) is not None:
            return False
        return not self._is_written_so(value, form)

    def _is_written_so(self, value: ir.Value, form: Form) -> bool:
        """Tell whether a value is its integer times scale plus bias as it is."""
        found: ir.Value | None = value
        for operator, array, neutral in (("Add", form.bias, 0), ("Mul", form.scale, 1)):
            if (array == neutral).all():
                continue
            node = None if found is None else found.producer()
            if node is None or node.op_type != operator or not _holds(node.inputs[1], array):
                return False
            found = node.inputs[0]
        return found is form.integer

    def _as_float(self, value: ir.Value, form: Form) -> ir.Value:
        result = form.integer
        if result.dtype is ir.DataType.DOUBLE:
            to = [ir.AttrInt64("to", ir.DataType.FLOAT)]
            result = self.shop.node("Cast", [result], value, to, after=result.producer())
        for operator, array, neutral in (("Mul", form.scale, 1), ("Add", form.bias, 0)):
            held = array.astype(np.float32)
            if not (held == neutral).all():
                parameter = self.shop.constant(held, f"{value.name}_{'scale' if operator == 'Mul' else 'bias'}")
                result = self.shop.node(
                    operator, [result, parameter], value, after=result.producer() or value.producer()
                )
        if result is form.integer and result.producer() is None:
            result = self.shop.node("Identity", [result], value)
        return result


def _holds(value: ir.Value | None, array: np.ndarray) -> bool:
    held = constant(value)
    return held is not None and held.shape == array.shape and bool((held == array.astype(np.float32)).all())
