"""Write a streamlined network in integers and standard operators."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import remove_if_dead, replace_value
from onnx_passes.graph.opset import convert_opset
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.collection import definition_of
from onnx_passes.passes.export import integer_elementwise as elementwise
from onnx_passes.passes.export import integer_products as products
from onnx_passes.passes.export.containers import FLOATS
from onnx_passes.passes.export.integer_thresholds import multi_threshold
from onnx_passes.passes.export.workshop import Workshop
from onnx_passes.passes.qonnx.inline_qonnx import inline

Rule = Callable[[Workshop, ir.Node], "ir.Value | str"]

LEAST_OPSET = 13
"""Since when all that is written here takes integers."""

RULES: dict[str, Rule] = {
    "Add": products.joined,
    "Cast": elementwise.cast,
    "Concat": elementwise.concat,
    "Conv": products.conv,
    "ConvTranspose": products.conv_transpose,
    "Einsum": products.einsum,
    "MatMul": products.matmul,
    "MaxPool": elementwise.max_pool,
    "Mul": elementwise.arithmetic,
    "MultiThreshold": multi_threshold,
    "Pad": elementwise.pad,
    "ReduceSum": elementwise.reduce_sum,
    "Relu": elementwise.relu,
    "Resize": elementwise.resize,
    "Sub": elementwise.arithmetic,
    **dict.fromkeys(elementwise.MOVEMENTS, elementwise.move),
}
_NO_RULE = "it has no form of integers"
_NO_INTEGERS = "its inputs are no integers"
_PRODUCTS = ("Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul")


@passes.verify.structure("only(ai.onnx::*)")
@passes.verify.equality
@passes.register(tags=("export", "quantized", "convert"))
class ExportInteger(Transformation):
    """Compute integers as integers, in standard operators that any runtime has, with the results of the model before.

    Rewrites: floats that hold integers → uint8, int8 or int32, whichever holds their range; ``MatMul`` and ``Conv`` of
              up to eight bits → ``MatMulInteger`` and ``ConvInteger``, others → ``MatMul`` of int32, and
              ``Einsum`` likewise; ``ConvTranspose`` → ``ConvInteger`` of a spread image; ``MultiThreshold`` →
              comparisons of integers, a table or a search; sums, pooling and movements likewise. Custom operators that
              remain → standard ones. Opsets below 13 → 13.
    Refuses:  sums that floats may have rounded or that pass 32 bits, convolutions and pooling of more than eight bits:
              these stay in floats, and a remark names them. Operators of other domains that are not defined here.
    Exactness: bit-exact, as long as inputs that are annotated as integers are such.
    """

    needs = ("lift-constants", "shape-inference")
    followed_by = ("shape-inference", "cleanup")
    fast_math = ("nnan",)

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Convert node by node, from the inputs on."""
        _refuse_what_is_not_defined(model)
        modified = False
        if model.opset_imports.get("", LEAST_OPSET) < LEAST_OPSET:
            context.note(f"opset {model.opset_imports['']} became {LEAST_OPSET}, where operators take integers")
            convert_opset(model, LEAST_OPSET)
            modified = True
        modified |= _Sweep(model, context).run()
        modified |= inline(model)
        _refuse_what_is_not_defined(model, but_known=False)
        for domain in [domain for domain in model.opset_imports if domain not in ("", "ai.onnx")]:
            del model.opset_imports[domain]
            modified = True
        return PassResult(model, modified=modified)


def _refuse_what_is_not_defined(model: ir.Model, *, but_known: bool = True) -> None:
    if model.functions:
        raise PassFailedError("the model has functions", hint="run inline-functions first")
    for node in all_nodes(model.graph):
        if node.domain and not (but_known and definition_of(node) is not None):
            raise PassFailedError(
                "there are no standard operators that do the same",
                where=name_of(node),
                hint="replace it, or export the part of the model without it",
            )


class _Sweep:
    def __init__(self, model: ir.Model, context: Context) -> None:
        self.model = model
        self.context = context
        self.shop = Workshop(model, ranges_of(model))
        self.converted: list[ir.Node] = []

    def run(self) -> bool:
        """Return whether anything was converted."""
        for node in tuple(self.model.graph):
            refusal = self._convert(node)
            if refusal is not None:
                self._keep(node, refusal)
        for value in dict.fromkeys(self.model.graph.outputs):
            if self.shop.has_twin(value):
                floats = self.shop.as_float(value)
                self.shop.place(None)
                replace_value(value, floats, self.shop.names)
        remove_if_dead(self.converted[::-1])
        return bool(self.converted)

    def _convert(self, node: ir.Node) -> str | None:
        """Let integers be computed beside a node; returns the reason if they cannot."""
        rule = RULES.get(node.op_type) if not node.domain or node.op_type == "MultiThreshold" else None
        if rule is None or len(node.outputs) != 1 or node.outputs[0].dtype not in FLOATS:
            return _NO_RULE
        dynamic = [value for value in node.inputs if value is not None and constant(value) is None]
        if not dynamic or not (node.domain or self._brings_integers(node)):
            return _NO_INTEGERS
        found = rule(self.shop, node)
        if isinstance(found, str):
            self.shop.discard()
            return found
        self.shop.set_twin(node.outputs[0], found)
        self.shop.place(node)
        self.converted.append(node)
        return None

    def _brings_integers(self, node: ir.Node) -> bool:
        """Tell whether it is worth while: integers come in, or a product takes what is known to hold them."""
        if any(self.shop.has_twin(value) for value in node.inputs):
            return True
        return node.op_type in _PRODUCTS and all(self.shop.bounds(value) is not None for value in node.inputs[:2])

    def _keep(self, node: ir.Node, reason: str) -> None:
        """Let a node, and what is in its bodies, take floats, which are made of integers where only these are left."""
        inner = [user for body in nested_graphs(node) for user in all_nodes(body)] if holds_graphs(node) else []
        lacking = [
            (user, index, value)
            for user in (node, *inner)
            for index, value in enumerate(user.inputs)
            if value is not None and self.shop.has_twin(value)
        ]
        for user, index, value in lacking:
            user.replace_input_with(index, self.shop.as_float(value))
        self.shop.place(node)
        if node.op_type in _PRODUCTS or (lacking and reason not in (_NO_RULE, _NO_INTEGERS) and not _is_last(node)):
            self.context.note(f"{name_of(node)} stays in floats: {reason}")


def _is_last(node: ir.Node) -> bool:
    """Tell whether a node scales or shifts integers by a float, as the end of a network does."""
    return node.op_type in ("Add", "Mul") and any(constant(value) is not None for value in node.inputs)
