"""Export a streamlined network in integers and standard operators."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.core.base import Context, PassResult
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import GENERAL_DOMAINS, definition_of
from onnx_passes.passes.convert.convert_opset import convert_to
from onnx_passes.passes.export import integer_elementwise as elementwise
from onnx_passes.passes.export import integer_products as products
from onnx_passes.passes.export.integer_thresholds import multi_threshold
from onnx_passes.passes.export.integer_transposed import conv_transpose
from onnx_passes.passes.export.integer_twins import IntegerTwins
from onnx_passes.passes.export.targets import HELP, target_of
from onnx_passes.passes.integers.containers import FLOATS
from onnx_passes.passes.qonnx.inline_qonnx import InlineQonnx
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

IntegerExportRule = Callable[[IntegerTwins, ir.Node], "ir.Value | str"]
"""Builds the result of a node in integers, or returns the reason why it cannot."""
INTEGER_EXPORTS: Interface[IntegerExportRule] = Interface("integer_export", "its equivalent on integer tensors")

LEAST_OPSET = 13
"""The first opset in which all emitted operators accept integers."""

INTEGER_EXPORTS.attach(
    {
        "Add": products.joined,
        "Cast": elementwise.cast,
        "Concat": elementwise.concat,
        "Conv": products.conv,
        "ConvTranspose": conv_transpose,
        "Einsum": products.einsum,
        "MatMul": products.matmul,
        "MaxPool": elementwise.max_pool,
        "Mul": elementwise.arithmetic,
        "Pad": elementwise.pad,
        "ReduceSum": elementwise.reduce_sum,
        "Relu": elementwise.relu,
        "Resize": elementwise.resize,
        "Sub": elementwise.arithmetic,
        **dict.fromkeys(elementwise.MOVEMENTS, elementwise.move),
    }
)
INTEGER_EXPORTS.of("MultiThreshold", domains=GENERAL_DOMAINS)(multi_threshold)
_NO_RULE = "its operator has no rule for integers"
_NO_INTEGERS = "its inputs are not integers"
_PRODUCTS = ("Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul")


@passes.verify.structure("only(ai.onnx::*)")
@passes.verify.equality
@passes.register(tags=("export", "quantized", "convert"))
class ExportInteger(EditorPass):
    """Lower integers held in floats to integer tensors and standard operators, with the same results.

    Rewrites: floats that hold integers → uint8, int8 or int32, by range; ``MatMul`` and ``Conv`` of up to eight bits →
              ``MatMulInteger`` and ``ConvInteger``, others → ``MatMul`` of int32, likewise for ``Einsum``;
              ``ConvTranspose`` → ``ConvInteger`` on parts of the kernel, with tiled results; ``MultiThreshold`` →
              comparisons of integers, a table or a search; sums, pooling and movements likewise. Remaining custom
              operators → standard ones. Opsets below 13 → 13.
    Refuses:  sums that floats may have rounded or that exceed 32 bits, convolutions and pooling of more than eight
              bits: these stay in floats, and a remark names them. Undefined operators of other domains.
    Exactness: bit-exact, if inputs annotated as integers hold integers.
    """

    needs = ("lift-constants", "shape-inference")
    followed_by = ("shape-inference", "cleanup")
    fast_math = ("nnan",)

    target: str = option("onnxruntime", HELP)

    def __post_init__(self) -> None:
        """Refuse an unknown target."""
        target_of(self.target)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert node by node, from the inputs on."""
        _refuse_what_is_not_defined(model)
        opset = model.opset_imports.get("", LEAST_OPSET)
        if opset < LEAST_OPSET:
            if not convert_to(LEAST_OPSET, model, editor):
                return
            editor.context.note(f"opset {opset} became {LEAST_OPSET}, in which operators accept integers")
        _Sweep(editor, ranges_of(model), products.sums_of_digits(model.graph), target_of(self.target)).convert_all(
            "integers"
        )

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Convert to integers, then lower the remaining custom operators."""
        first = super().run(model, context).modified
        second = InlineQonnx().run(model, context).modified
        foreign = [domain for domain in model.opset_imports if domain not in ("", "ai.onnx")]

        def leave_out() -> None:
            _refuse_what_is_not_defined(model, but_known=False)
            for domain in foreign:
                del model.opset_imports[domain]

        with Editor(model, context) as editor:
            third = bool(foreign) and editor.change("standard operators alone", (), leave_out)
        return PassResult(model, modified=first or second or third)


def _refuse_what_is_not_defined(model: ir.Model, *, but_known: bool = True) -> None:
    if model.functions:
        raise PassFailedError("the model has functions", hint="run inline-functions first")
    for node in all_nodes(model.graph):
        if node.domain and not (but_known and definition_of(node) is not None):
            raise PassFailedError(
                "there are no equivalent standard operators",
                where=name_of(node),
                hint="replace it, or export the part of the model without it",
            )


class _Sweep(IntegerTwins):
    def form(self, node: ir.Node) -> ir.Value | str:
        """Build integers by the rule of the operator, if its inputs are integers."""
        rule = INTEGER_EXPORTS.get(node)
        if rule is None or len(node.outputs) != 1:
            return _NO_RULE
        kind = node.outputs[0].dtype
        if kind not in FLOATS:
            return f"its result is {'of unknown type' if kind is None else kind.name}, not of float32 or float64"
        dynamic = [value for value in node.inputs if value is not None and constant(value) is None]
        if not dynamic or not (node.domain or self._brings_integers(node)):
            return _NO_INTEGERS
        return rule(self, node)

    def _brings_integers(self, node: ir.Node) -> bool:
        """Return whether an input is an integer twin, or a product has operands that hold integers."""
        if any(self.has_twin(value) for value in node.inputs):
            return True
        return node.op_type in _PRODUCTS and all(self.bounds(value) is not None for value in node.inputs[:2])

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report products, and nodes at which integers end."""
        inner = [user for body in nested_graphs(node) for user in all_nodes(body)] if holds_graphs(node) else []
        taken = any(self.has_twin(value) for user in (node, *inner) for value in user.inputs)
        if node.op_type in _PRODUCTS or (taken and reason not in (_NO_RULE, _NO_INTEGERS) and not _is_last(node)):
            self.editor.context.note(f"{name_of(node)} stays in floats: {reason}")


def _is_last(node: ir.Node) -> bool:
    """Return whether a node scales or shifts integers by a float, as at the end of a network."""
    return node.op_type in ("Add", "Mul") and any(constant(value) is not None for value in node.inputs)
