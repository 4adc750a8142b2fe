"""Export a streamlined network in integers and standard operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.base import Context, PassResult
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import GENERAL_DOMAINS, definition_of
from onnx_passes.ops.facts.sums import Bounds, size_of
from onnx_passes.ops.step_functions import Compare, Steps, count, look_up, reached, reached_by_difference, search
from onnx_passes.passes.convert.convert_opset import convert_to
from onnx_passes.passes.export import integer_elementwise as elementwise
from onnx_passes.passes.export import integer_products as products
from onnx_passes.passes.export.integer_transposed import conv_transpose
from onnx_passes.passes.export.integer_twins import IntegerTwins
from onnx_passes.passes.export.targets import HELP, target_of
from onnx_passes.passes.export.thresholds import StepFunction, step_function
from onnx_passes.passes.integers.containers import FLOATS, bounds_of, container
from onnx_passes.passes.qonnx.inline_qonnx import InlineQonnx
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_FEW = 3
"""Up to this number, thresholds are compared one by one."""
_SMALL_TABLE = 1 << 12
"""Maximum size of a table of all integers in bytes, unless the thresholds take more."""


def multi_threshold(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Count thresholds of integers; float inputs are compared as floats."""
    x = node.inputs[0]
    assert x is not None
    found = step_function(node)
    if isinstance(found, str):
        return found
    levels = bounds_of(found.levels)
    dtype = None if levels is None else container(levels)
    if dtype is None:
        return "32 bits do not hold its levels"
    bounds = twins.bounds(x)
    rounded = twins.rounded_twin(x) if bounds is None else None
    if rounded is not None:
        integer, bounds = rounded
        return _on_integers(twins, integer, bounds, found.with_thresholds(before_rounding(found.thresholds)), dtype)
    integer = None if bounds is None or not twins.has_twin(x) else twins.integer(x)
    if bounds is None or integer is None:
        return _on_floats(twins, x, found, dtype)
    return _on_integers(twins, integer, bounds, found, dtype)


def before_rounding(thresholds: np.ndarray) -> np.ndarray:
    """Return the least integers, as doubles, that reach the thresholds after rounding to float32."""
    given = thresholds.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        below = np.nextafter(given, np.float32(-np.inf)).astype(np.float64)
        # From halfway after the next smaller float, or from the next integer, numbers round up.
        least = np.floor((below + given) / 2)
        least = np.where(least.astype(np.float32) >= given, least, least + 1)
    return np.where(np.isfinite(given), least, given.astype(np.float64))


def _on_floats(twins: IntegerTwins, x: ir.Value, found: StepFunction, dtype: ir.DataType) -> ir.Value:
    if found.amount <= _FEW and _counts(found):
        return _compared(twins, x, found, dtype)
    return look_up(twins.op, x, _steps(found, dtype), by_lines=not twins.target.regroups)


def _on_integers(twins: IntegerTwins, x: ir.Value, bounds: Bounds, found: StepFunction, dtype: ir.DataType) -> ir.Value:
    low, high = bounds
    # Thresholds outside of the range are always or never reached.
    thresholds = np.clip(np.ceil(found.thresholds), low, high + 1).astype(np.int64)
    found = found.with_thresholds(thresholds)
    # Thresholds are within the range, so that differences need at most one more bit.
    is_exact = size_of(bounds) <= twins.target.exact or high - low >= 1 << 31
    compare = reached if is_exact else reached_by_difference
    if found.amount <= _FEW and _counts(found):
        return _compared(twins, twins.cast(x, ir.DataType.INT32), found, dtype, compare)
    rows = thresholds.reshape(-1, found.amount)
    size = high - low + 1
    if len(rows) * size * dtype.itemsize <= max(_SMALL_TABLE, rows.size * 4):
        return _tabulated(twins, x, bounds, found, dtype)
    return search(twins.op, twins.cast(x, ir.DataType.INT32), _steps(found, dtype), compare)


def _counts(found: StepFunction) -> bool:
    """Return whether each threshold is a step by one."""
    return bool((np.diff(found.levels, axis=-1) == 1).all()) and found.levels.ndim == 1


def _compared(
    twins: IntegerTwins, x: ir.Value, found: StepFunction, dtype: ir.DataType, compare: Compare = reached
) -> ir.Value:
    kind = (x.dtype or ir.DataType.FLOAT).numpy()
    columns = list(np.moveaxis(found.thresholds.astype(kind), -1, 0))
    counted = count(twins.op, x, columns, np.dtype(np.int32), compare=compare)
    first = int(found.levels[0])
    if first:
        counted = twins.op.Add(counted, np.array(first, np.int32))
    return twins.cast(counted, dtype)


def _tabulated(twins: IntegerTwins, x: ir.Value, bounds: Bounds, found: StepFunction, dtype: ir.DataType) -> ir.Value:
    """Look up the level of every integer of the range in a table."""
    steps, (low, high) = _steps(found, dtype), bounds
    size = high - low + 1
    integers = np.arange(low, high + 1)
    counts = np.stack([np.searchsorted(row, integers, side="right") for row in steps.rows])
    table = steps.of_count(counts).reshape(-1)
    index, shift = twins.cast(x, ir.DataType.INT32), steps.numbered(size) - np.int32(low)
    return twins.op.Gather(table, twins.op.Add(index, shift) if shift.any() else index)


def _steps(found: StepFunction, dtype: ir.DataType) -> Steps:
    thresholds = found.thresholds.astype(np.float32 if found.thresholds.dtype.kind == "f" else np.int32)
    return Steps(thresholds, found.levels.astype(dtype.numpy()))


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
