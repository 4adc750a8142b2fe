"""Scaled-integer forms of sums of products: matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.numbers.reals import Reals, joined, product
from onnx_passes.ops.facts.sums import contraction_of, greatest_sum, size_of, summed_axes
from onnx_passes.ops.ranges.convolutions import bias_behind
from onnx_passes.ops.ranges.products import laid_out
from onnx_passes.passes.streamline.choices import squeezed
from onnx_passes.passes.streamline.form import ALONG_SUM, BIAS, FEWER_BITS, PARAMETER, RANK, VARIES, Form, FormBuilder

_MATRIX = 2
_PADDED = Reason(
    "it pads with zeros, and the bias of its input is not a multiple of its scale", "use integer zero points"
)


def matmul(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Multiply integers whose scales are constant along the contracted axis."""
    a, b = forms[0], forms[1]
    if a is None or b is None:
        return _lacking(make, node, forms)
    return RANK if 0 in (a.scale.ndim, b.scale.ndim) else _product(make, node, a, b)


def gemm(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Multiply integers; the third operand goes into the bias."""
    a, b = forms[0], forms[1]
    if a is None or b is None:
        return _lacking(make, node, forms)
    if node.attributes.get_int("transA", 0):
        a = _transposed(make, node, a)
    if node.attributes.get_int("transB", 0):
        b = _transposed(make, node, b)
    found = _product(make, node, a, b)
    if isinstance(found, Reason):
        return found
    found = found.times(float(np.float32(node.attributes.get_float("alpha", 1.0))))
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        if make.number(node.inputs[2]) is None:
            return PARAMETER
        added = make.exact(node.inputs[2]).spread(_MATRIX)
        found = found.plus(added * Reals.of(np.float32(node.attributes.get_float("beta", 1.0))))
    return found


def _lacking(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Reason:
    """Return the reason why the first operand without a form has none."""
    index = 0 if forms[0] is None else 1
    return make.lacking(node.inputs[index], ("input", "weight")[index])


def _transposed(make: FormBuilder, node: ir.Node, form: Form) -> Form:
    held = constant(form.integer)
    if held is not None:
        integer = make.constant(held.T, f"{form.integer.name}_transposed")
    else:
        integer = make.node("Transpose", [form.integer], node.outputs[0], [ir.AttrInt64s("perm", [1, 0])])
        integer.shape = None
    return Form(integer, form.scale.moved(np.transpose), form.bias.moved(np.transpose))


def _product(make: FormBuilder, node: ir.Node, a: Form, b: Form) -> Form | Reason:
    result = node.outputs[0]
    vectors = a.scale.ndim < _MATRIX, b.scale.ndim < _MATRIX
    p, q = _as_matrix(a, 0), _as_matrix(b, 1)
    first, second = constant(a.integer), constant(b.integer)
    seen: Reals | None = p.scale
    if p.scale.shape[-1] > 1:
        seen = None if second is None else _seen_by_columns(p.scale, second)
    if seen is None or q.scale.shape[-2] > 1:
        return ALONG_SUM
    length = max(p.scale.ndim, q.scale.ndim)
    bias = Reals.zeros(length)
    if a.has_bias and second is not None and not b.has_bias:
        matrix = _matrix(second, 1)
        bias = (product(p.bias, matrix) * q.scale).spread(length)
    elif b.has_bias and first is not None and not a.has_bias:
        matrix = _matrix(first, 0)
        turned = product(q.bias.moved(_turned), _turned(matrix))
        bias = (turned.moved(_turned) * p.scale).spread(length)
    else:
        centred_a, centred_b = make.centred(a, result), make.centred(b, result)
        if isinstance(centred_a, Reason) or isinstance(centred_b, Reason):
            return BIAS
        a, b = centred_a, centred_b
    integer = make.node("MatMul", [a.integer, b.integer], result)
    gone = tuple(axis for axis, is_vector in ((-2, vectors[0]), (-1, vectors[1])) if is_vector)
    scale, left = (seen * q.scale).spread(length), [axis % length for axis in gone]
    return Form(integer, squeezed(scale, left), squeezed(bias, left)) if gone else Form(integer, scale, bias)


def _turned(matrix: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2)


def _seen_by_columns(scales: Reals, matrix: np.ndarray) -> Reals | None:
    """Return the common scale of the used rows for each column of a constant matrix; None if a column has several.

    Zero entries do not use their row: a depthwise convolution, as a matrix, uses one channel in each column.
    """
    if scales.size != scales.shape[-1] or matrix.ndim != _MATRIX or matrix.shape[0] != scales.size:
        return None
    numbered: dict[object, int] = {}
    kinds = np.array([numbered.setdefault(scale, place) for place, scale in enumerate(scales.list())])[:, None]
    used = matrix != 0
    least, most = np.where(used, kinds, scales.size).min(axis=0), np.where(used, kinds, -1).max(axis=0)
    if (least < most).any():
        return None
    # A column of zeros may have any scale.
    found = joined([scales, Reals.ones(1)]).taken(np.where(most < 0, scales.size, most))
    return found.reshape(*scales.shape[:-1], -1)


def _as_matrix(form: Form, side: int) -> Form:
    """Return the form of a vector as the row or column that it is in a product."""
    scale, bias = (array.moved(lambda places: _matrix(places, side)) for array in (form.scale, form.bias))
    return Form(form.integer, scale, bias)


def _matrix(array: np.ndarray, side: int) -> np.ndarray:
    return array if array.ndim >= _MATRIX else np.expand_dims(array, side)


def einsum(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Multiply integers along labels; scales must be constant along the contracted ones."""
    result, found = node.outputs[0], contraction_of(node)
    if found is None or len(forms) != 2:
        return Reason("its equation is not a product of two operands", "write it as a product of two")
    if forms[0] is None or forms[1] is None:
        return _lacking(make, node, forms)
    a, b = make.centred(forms[0], result), make.centred(forms[1], result)
    if isinstance(a, Reason) or isinstance(b, Reason):
        return BIAS
    order = (*found.result, *found.summed)
    scales = [
        form.scale.moved(lambda places, labels=labels: laid_out(places, labels, order))
        for form, labels in zip((a, b), found.operands, strict=True)
    ]
    scale, summed = scales[0] * scales[1], tuple(range(len(found.result), len(order)))
    if any(scale.shape[axis] > 1 for axis in summed):
        return ALONG_SUM
    attributes = tuple(node.attributes.values())
    integer = make.node("Einsum", [a.integer, b.integer], result, attributes)
    return Form(integer, squeezed(scale, summed), Reals.zeros(len(found.result)))


def conv(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Convolve integers with integer weights, with any groups."""
    found = _operands(make, node, forms)
    if isinstance(found, Reason):
        return found
    x, w, weights = found
    if varies(w.scale, keep=0):
        return ALONG_SUM
    channels, group = weights.shape[0], node.attributes.get_int("group", 1)
    scale = _per_output_channel(x.scale, channels, alone=weights.shape[1] == 1 and group > 1)
    if scale is None:
        return ALONG_SUM
    if varies(x.bias, keep=1):
        return VARIES
    result = node.outputs[0]
    bias = Reals.zeros(weights.ndim)
    by_channel = along_channels(w.scale, weights.ndim)
    if x.has_bias:
        centred = _centred(make, x, result) if pads(node) else BIAS
        behind = _behind(node, weights, x.bias) if isinstance(centred, Reason) else None
        if isinstance(centred, Form):
            x = centred
        elif behind is None:
            return _PADDED
        else:
            bias = behind * by_channel
    integer = convolution(make, node, x, w)
    if isinstance(integer, Reason):
        return integer
    return _with_bias(make, node, Form(integer, scale * by_channel, bias), weights.ndim)


def _behind(node: ir.Node, weights: np.ndarray, bias: Reals) -> Reals | None:
    """Return the contribution of an input bias to each output, without the scale of the weights; None if unknown."""
    whole = weights.astype(np.float64)
    if bias.size == 1:
        seen = bias_behind(node, whole, np.ones(bias.shape))
        return None if seen is None else Reals.of(seen) * bias.reshape()
    # Contribution of each input channel with bias one; the result is the weighted sum.
    parts = [bias_behind(node, whole, np.arange(bias.size).reshape(bias.shape) == each) for each in range(bias.size)]
    behind = [part for part in parts if part is not None]
    if len(behind) < len(parts):
        return None
    terms = [Reals.of(part) * bias.taken(np.array(each)) for each, part in enumerate(behind)]
    return reduce(lambda a, b: a + b, terms)


def _operands(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> tuple[Form, Form, np.ndarray] | Reason:
    """Return the forms of image and weights, and the integers of the weights."""
    x, w = forms[0], forms[1]
    if x is None or w is None:
        return _lacking(make, node, forms)
    weights = constant(w.integer)
    if weights is None:
        return PARAMETER
    return (x, w, weights) if not w.has_bias else BIAS


def _centred(make: FormBuilder, x: Form, result: ir.Value) -> Form | Reason:
    """Move a bias into the integers of an image, which are floats even if their sums are doubles."""
    wide, make.wide = make.wide, x.integer.dtype is ir.DataType.DOUBLE
    centred = make.centred(x, result)
    make.wide = wide
    return centred


def conv_transpose(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Convolve integers with integer weights; the integer of zero must be zero, as border pixels see fewer elements."""
    found = _operands(make, node, forms)
    if isinstance(found, Reason):
        return found
    x, w, weights = found
    group = node.attributes.get_int("group", 1)
    if x.scale.size > 1 or varies(w.scale, keep=1) or (group > 1 and w.scale.size > 1):
        return ALONG_SUM
    x = _centred(make, x, node.outputs[0])
    if isinstance(x, Reason):
        return _PADDED
    integer = convolution(make, node, x, w)
    if isinstance(integer, Reason):
        return integer
    scale = x.scale.reshape() * along_channels(w.scale, weights.ndim)
    return _with_bias(make, node, Form(integer, scale, Reals.zeros(weights.ndim)), weights.ndim)


def _with_bias(make: FormBuilder, node: ir.Node, form: Form, length: int) -> Form | Reason:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return form
    if make.number(node.inputs[2]) is None:
        return PARAMETER
    return form.plus(along_channels(make.exact(node.inputs[2]), length))


def _per_output_channel(scale: Reals, channels: int, *, alone: bool) -> Reals | None:
    """Return the input scale per output channel: one for all, or one per depthwise channel; None otherwise."""
    if scale.size == 1:
        return scale
    if not alone or varies(scale, keep=1):
        return None
    times = channels // scale.size
    return along_channels(scale.moved(lambda places: np.repeat(places.reshape(-1), times)), scale.ndim)


def along_channels(numbers: Reals, length: int) -> Reals:
    """Reshape numbers to the channel axis."""
    return numbers.reshape(1, numbers.size, *(1,) * (length - 2))


def varies(array: Reals, *, keep: int) -> bool:
    """Return whether numbers vary along another axis than ``keep``."""
    return any(size > 1 for axis, size in enumerate(array.shape) if axis != keep)


def pads(node: ir.Node) -> bool:
    """Return whether a convolution may pad the image."""
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    return mode.startswith("SAME") or any(node.attributes.get_ints("pads") or ())


_MOST_DIGITS = 8
_CLIP_OF_INPUTS = 11
_TOO_LARGE = Reason("its sums exceed the integers that floats hold, even in parts", FEWER_BITS)


class _Term(NamedTuple):
    """A part of a convolution, and its factor in the sum."""

    factor: int
    x: ir.Value
    weights: np.ndarray


def convolution(make: FormBuilder, node: ir.Node, x: Form, w: Form) -> ir.Value | Reason:
    """Build a convolution of integers, in parts if necessary, or return the reason if these would be too many."""
    result, attributes = node.outputs[0], tuple(node.attributes.values())
    if not make.wide:
        return make.node(node.op_type, [x.integer, w.integer], result, attributes)
    terms = _terms(make, node, x, w)
    if terms is None:
        return _TOO_LARGE
    total: ir.Value | None = None
    for term in terms:
        digits = make.constant(term.weights, f"{w.integer.name}_digits", wide=False)
        part = make.node(node.op_type, [term.x, digits], result, attributes, wide=False)
        made = make.widened(part)
        if term.factor != 1:
            made = make.node("Mul", [made, make.constant(np.array(term.factor), f"{result.name}_base")], result)
        total = made if total is None else make.node("Add", [total, made], result)
    return _TOO_LARGE if total is None else total


def _terms(make: FormBuilder, node: ir.Node, x: Form, w: Form) -> list[_Term] | None:
    weights, ends = constant(w.integer), make.ends(x, node.inputs[0])
    axes = None if weights is None else summed_axes(node, 1, weights.ndim)
    if weights is None or ends is None or axes is None or x.integer.dtype is not ir.DataType.FLOAT:
        return None
    whole = weights.astype(np.int64)
    for amount in range(2, _MOST_DIGITS + 1):
        digits = _digits(whole, amount)
        if all(greatest_sum(digit, ends, axes) <= EXACT_IN_FLOAT for _, digit in digits):
            return [_Term(factor, x.integer, digit) for factor, digit in digits]
    if make.op.opset < _CLIP_OF_INPUTS:
        return None
    base = 1 << (size_of(ends).bit_length() + 1) // 2
    high, low = (ends[0] // base, ends[1] // base), (0, base - 1)
    for amount in range(1, _MOST_DIGITS + 1):
        digits = _digits(whole, amount)
        if all(greatest_sum(digit, each, axes) <= EXACT_IN_FLOAT for _, digit in digits for each in (high, low)):
            upper, lower = _halves(make, x.integer, base)
            return [
                _Term(factor * count, part, digit)
                for count, part in ((1, lower), (base, upper))
                for factor, digit in digits
            ]
    return None


def _digits(weights: np.ndarray, amount: int) -> list[tuple[int, np.ndarray]]:
    """Split integers into signed digits of one base, the lowest first, each with its weight in the sum."""
    bits = int(np.abs(weights).max(initial=0)).bit_length() + 1
    base = 1 << -(-bits // amount)
    found: list[tuple[int, np.ndarray]] = []
    rest, factor = weights, 1
    for _ in range(amount - 1):
        digit = (rest + base // 2) % base - base // 2
        found.append((factor, digit))
        rest, factor = (rest - digit) // base, factor * base
    return [each for each in (*found, (factor, rest)) if each[1].any()] or [(1, weights)]


def _halves(make: FormBuilder, x: ir.Value, base: int) -> tuple[ir.Value, ir.Value]:
    """Split integers into multiples of a base and non-negative remainders."""
    one = np.ones((1,) * (rank(x) or 0))
    share, less = (make.constant(one * number, f"{x.name}_base", wide=False) for number in (1 / base, -base))
    quotient = make.node("Mul", [x, share], x, wide=False)
    upper = make.node("Floor", [quotient], x, wide=False)
    taken = make.node("Mul", [upper, less], x, wide=False)
    rest = make.node("Add", [x, taken], x, wide=False)
    # The Clip changes nothing, but gives range analysis the bounds of the remainder.
    ends = [make.constant(np.array(number), f"{x.name}_bound", wide=False) for number in (0, base - 1)]
    return upper, make.node("Clip", [rest, *ends], x, wide=False)
