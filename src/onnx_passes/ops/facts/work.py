"""How much operators compute: multiply-accumulates, and other operations.

Multiply-accumulates (MACs) are those of matrix products and convolutions. Other operations count one for each element
of an elementwise function, be it Add or Gelu, one for each element that a reduction or a pooling window reads, and for
composed operators the sum of their steps: Softmax is max, subtract, exp, sum and divide. Moving data counts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.extents import Amount, Extent, Monomial, extent, product
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.traits import operators
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, CONTRIBUTED_DOMAIN, GENERAL_DOMAINS

NOMINAL = 64
"""What a dynamic dimension counts where amounts have to be compared."""


class UnknownSizeError(Exception):
    """A size is not known, not even as a formula; the text says of what."""


def total(amounts: Iterable[Amount | None]) -> Amount:
    """Add what is known."""
    number, symbolic = 0, dict[Monomial, int]()
    for amount in amounts:
        if isinstance(amount, int):
            number += amount
        elif amount is not None:
            for names, factor in amount.terms.items():
                symbolic[names] = symbolic.get(names, 0) + factor
    return Extent(symbolic) + number if symbolic else number


def nominal(amount: Amount, of: int = NOMINAL) -> int:
    """Return a number to compare by: every dynamic dimension counts as ``of``."""
    if isinstance(amount, int):
        return amount
    return sum(factor * of ** len(names) for names, factor in amount.terms.items())


def dims(value: ir.Value | None) -> list[Amount]:
    """Return the dimensions of a value. Raises UnknownSizeError."""
    if value is None:
        raise UnknownSizeError("an input is missing")
    if value.shape is None:
        raise UnknownSizeError(f"the shape of '{value.name}' is not known")
    found = [dim if isinstance(dim, int) else extent(dim) for dim in value.shape]
    known = [amount for amount in found if amount is not None]
    if len(known) < len(found):
        raise UnknownSizeError(f"a dimension of '{value.name}' has neither number nor name")
    return known


def size(value: ir.Value | None) -> Amount:
    """Return the number of elements of a value. Raises UnknownSizeError."""
    return product(dims(value))


def nbytes(value: ir.Value | None) -> Amount:
    """Return the number of bytes of a value. Raises UnknownSizeError."""
    if value is None or value.name == "":
        return 0
    if value.dtype is None or value.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        raise UnknownSizeError(f"the size of the elements of '{value.name}' is not known")
    elements, width = size(value), value.dtype.itemsize
    if isinstance(elements, int):
        return math.ceil(elements * width)
    return Extent({names: math.ceil(factor * width) for names, factor in elements.terms.items()})


class Work(NamedTuple):
    """Multiply-accumulates and other operations."""

    macs: Amount = 0
    operations: Amount = 0


Formula = Callable[[ir.Node], Work]
WORK: Interface[Formula] = Interface("work", "its multiply-accumulates and other operations")


def work_of(node: ir.Node) -> Work | None:
    """Return the work of a node, or nothing for an operator without a formula. Raises UnknownSizeError."""
    formula = WORK.get(node)
    return None if formula is None else formula(node)


def _nothing(node: ir.Node) -> Work:
    return Work()


def _each(node: ir.Node, steps: int = 1) -> Work:
    return Work(0, size(node.outputs[0]) * steps)


def _each_input(node: ir.Node, steps: int = 1) -> Work:
    return Work(0, size(node.inputs[0]) * steps)


def _variadic(node: ir.Node) -> Work:
    return _each(node, max(len(node.inputs) - 1, 1))


def _conv(node: ir.Node, weight: int = 1, bias: int | None = 2) -> Work:
    result = size(node.outputs[0])
    added = result if bias is not None and argument(node, bias) is not None else 0
    return Work(result * product(dims(argument(node, weight))[1:]), added)


def _conv_transpose(node: ir.Node) -> Work:
    added = size(node.outputs[0]) if argument(node, 2) is not None else 0
    return Work(size(node.inputs[0]) * product(dims(argument(node, 1))[1:]), added)


def _gemm(node: ir.Node, bias: int = 2) -> Work:
    result, first = size(node.outputs[0]), dims(node.inputs[0])
    if len(first) != 2:
        raise UnknownSizeError("the first input is no matrix")
    steps = (argument(node, bias) is not None) + (node.attributes.get_float("alpha", 1.0) != 1.0)
    return Work(result * first[0 if node.attributes.get_int("transA", 0) else 1], result * steps)


def _matmul(node: ir.Node) -> Work:
    first = dims(node.inputs[0])
    if not first:
        raise UnknownSizeError("the first input is no matrix")
    transposed = node.attributes.get_int("transA", 0) and len(first) > 1
    return Work(size(node.outputs[0]) * first[-2 if transposed else -1])


def _einsum(node: ir.Node) -> Work:
    terms = node.attributes.get_string("equation", "").replace(" ", "").split("->")[0].split(",")
    extents: dict[str | int, Amount] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        shape, labels = dims(value), term.replace("...", ".")
        free = len(shape) - len(labels.replace(".", ""))
        before = labels.partition(".")[0]
        names: list[str | int] = [*before, *range(-free, 0), *labels[len(before) + 1 :]] if "." in labels else [*labels]
        for name, size in zip(names, shape, strict=False):
            if extents.get(name, 1) == 1:
                extents[name] = size
    visited = product(extents.values())
    return Work(visited * (len(terms) - 1)) if len(terms) > 1 else Work(0, visited)


def _recurrent(node: ir.Node, steps: int) -> Work:
    sequence, weights, recurrence = dims(node.inputs[0]), size(argument(node, 1)), dims(argument(node, 2))
    places = product(sequence[:2])
    # Steps of one hidden element: adding up the gates, the activations, and the new state.
    hidden = recurrence[0] * recurrence[-1]
    return Work(places * (weights + product(recurrence)), places * hidden * steps)


def _attention(node: ir.Node, key: int = 1, past: int = 4) -> Work:
    query, shape = size(node.inputs[0]), dims(node.inputs[0])
    keys = dims(argument(node, key))[-2]
    if argument(node, past) is not None:
        keys = dims(argument(node, past))[-2] + keys
    heads = shape[1] if len(shape) == 4 else _heads(node)
    scores = shape[0] * heads * shape[-2] * keys
    return Work((query + size(node.outputs[0])) * keys, scores * 6)


def _heads(node: ir.Node) -> int:
    given = node.attributes.get_int("q_num_heads", node.attributes.get_int("num_heads", 0))
    if not given:
        raise UnknownSizeError("the number of heads is not given")
    return given


def _packed_attention(node: ir.Node) -> Work:
    """Count an attention that projects its input to query, key and value first."""
    batch, length, _ = dims(node.inputs[0])
    rows, result = batch * length, size(node.outputs[0])
    scores = rows * length * _heads(node)
    return Work(rows * size(argument(node, 1)) + result * length * 2, scores * 6)


def _pool(node: ir.Node) -> Work:
    kernel = node.attributes.get_ints("kernel_shape", ())
    return Work(0, size(node.outputs[0]) * product(kernel))


def _lrn(node: ir.Node) -> Work:
    return _each(node, node.attributes.get_int("size", 1) + 3)


def _resize(node: ir.Node) -> Work:
    mode = node.attributes.get_string("mode", "nearest")
    return _each(node, {"nearest": 0, "linear": 8, "cubic": 32}.get(mode, 0))


def _thresholds(node: ir.Node) -> Work:
    return Work(0, size(node.outputs[0]) * dims(argument(node, 1))[-1])


def _packed_matmul(node: ir.Node) -> Work:
    return Work(size(node.outputs[0]) * node.attributes.get_int("K", 0))


_ELEMENTWISE = (*operators("elementwise"), "CastLike", "CumSum")
_REDUCTIONS = (*operators("reduction"), "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Hardmax", "TopK")
_MOVEMENT = (
    "BitCast", "Col2Im", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace",
    "Dropout", "Expand", "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop",
    "NonZero", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Pad", "Range", "Reshape",
    "ReverseSequence", "Scan", "ScatterElements", "ScatterND", "Scatter", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "Shape", "Size", "Slice", "SpaceToDepth",
    "Split", "SplitToSequence", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze",
)  # fmt: skip
_COMPOSED = {
    "BatchNormalization": 2, "Clip": 2, "DequantizeLinear": 2, "DynamicQuantizeLinear": 6, "GroupNormalization": 7,
    "InstanceNormalization": 7, "LayerNormalization": 7, "LogSoftmax": 5, "LpNormalization": 3,
    "MeanVarianceNormalization": 6, "QuantizeLinear": 4, "RMSNormalization": 4, "RotaryEmbedding": 3, "Softmax": 5,
}  # fmt: skip
_STEPS = {"Quant": 7, "IntQuant": 7, "FloatQuant": 7, "Trunc": 7, "BipolarQuant": 2}
_CONTRIBUTED: dict[str, Formula] = {
    **dict.fromkeys(("FusedMatMul", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"), _matmul),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), partial(_each, steps=5)),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu"), partial(_each, steps=4)),
    **dict.fromkeys(("QLinearGlobalAveragePool", "QLinearReduceMean"), _each_input),
    **dict.fromkeys(("BiasGelu", "FastGelu", "QuickGelu", "BiasSplitGelu"), partial(_each, steps=2)),
    **dict.fromkeys(("SkipLayerNormalization", "EmbedLayerNormalization"), partial(_each, steps=8)),
    **dict.fromkeys(("SimplifiedLayerNormalization", "RotaryEmbedding"), partial(_each, steps=4)),
    **dict.fromkeys(("QLinearConcat", "NhwcMaxPool"), _nothing),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), partial(_each, steps=4)),
    "Attention": _packed_attention,
    "DynamicQuantizeLSTM": partial(_recurrent, steps=17),
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "Gelu": _each,
    "MatMulNBits": _packed_matmul,
    "MultiHeadAttention": partial(_attention, past=6),
    "QAttention": _packed_attention,
    "QGemm": partial(_gemm, bias=6),
    "QLinearAveragePool": _pool,
    "QLinearSoftmax": partial(_each, steps=6),
    "SkipSimplifiedLayerNormalization": partial(_each, steps=5),
}
_STANDARD: dict[str, Formula] = {
    **dict.fromkeys(_ELEMENTWISE, _each),
    **dict.fromkeys(_REDUCTIONS, _each_input),
    **dict.fromkeys(_MOVEMENT, _nothing),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), _variadic),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    **{name: partial(_each, steps=steps) for name, steps in _COMPOSED.items()},
    "Attention": _attention,
    "Conv": _conv,
    "ConvInteger": partial(_conv, bias=None),
    "ConvTranspose": _conv_transpose,
    "DeformConv": partial(_conv, bias=3),
    "Einsum": _einsum,
    "GRU": partial(_recurrent, steps=13),
    "Gemm": _gemm,
    "LRN": _lrn,
    "LSTM": partial(_recurrent, steps=17),
    "QLinearConv": partial(_conv, weight=3, bias=8),
    "RNN": partial(_recurrent, steps=3),
    "Resize": _resize,
    "Upsample": _resize,
}
_QUANTIZED: dict[str, Formula] = {
    **{name: partial(_each, steps=steps) for name, steps in _STEPS.items()},
    **dict.fromkeys(("DebugMarker", "Im2Col"), _nothing),
    "MultiThreshold": _thresholds,
    "XnorPopcountMatMul": _matmul,
}
_CHANNELS_LAST = ("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "MaxPool")
"""Operators that do as much whatever the order of axes: weights have as many elements for each result."""

WORK.attach(_STANDARD)
WORK.attach(_CONTRIBUTED, domains=(CONTRIBUTED_DOMAIN,))
WORK.attach(_QUANTIZED, domains=GENERAL_DOMAINS)
WORK.attach({name: _STANDARD[name] for name in _CHANNELS_LAST}, domains=(CHANNELS_LAST_DOMAIN,))
