"""Integer products: MatMulInteger and ConvInteger for eight bits, 32-bit products otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.facts.sums import Bounds, greatest_sum, sums_within
from onnx_passes.passes.export.integer_elementwise import arithmetic
from onnx_passes.passes.export.integer_twins import ConvolutionTerm, IntegerTwins
from onnx_passes.passes.integers.containers import SMALL, bounds_of, container, is_exact_product, may_saturate

_INT8, _UINT8, _INT32 = ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32
TOO_LARGE = "its sums may exceed the integers that floats hold, and then differ, or exceed 32 bits"
NO_INTEGERS = "not all of its inputs are integers"


def matmul(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Multiply matrices in eight bits, or all in 32."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    left, right = twins.bounds(a), twins.bounds(b)
    if left is None or right is None:
        return NO_INTEGERS
    if not is_exact_product(node, twins.bounds):
        return TOO_LARGE
    is_small = container(left, SMALL) is not None and container(right, SMALL) is not None
    is_small = is_small and (rank(a) or 0) >= 2 and (rank(b) or 0) >= 2
    x, held = twins.integer(a, SMALL if is_small else (_INT32,)), constant(b)
    assert x is not None
    if sums_within(node, twins.bounds, twins.target.exact):
        return _matrices(twins, (x, left), b, is_small=is_small)
    parts = None if held is None else _within(twins, held, left)
    if parts is None:
        return TOO_LARGE
    weights = [twins.op.initializer(part, f"{b.name}_part") for part in parts]
    images = _sliced(twins, x, [part.shape[_summed(part)] for part in parts])
    return reduce(
        twins.op.Add,
        [_matrices(twins, (image, left), one, is_small=is_small) for image, one in zip(images, weights, strict=True)],
    )


def _matrices(twins: IntegerTwins, a: tuple[ir.Value, Bounds], b: ir.Value, *, is_small: bool) -> ir.Value:
    w, right = twins.integer(b, SMALL if is_small else (_INT32,)), twins.bounds(b)
    assert w is not None
    assert right is not None
    return _small_matmul(twins, a, (b, w, right)) if is_small else twins.op.MatMul(a[0], w)


def _summed(matrices: np.ndarray) -> int:
    return max(matrices.ndim - 2, 0)


def _within(twins: IntegerTwins, weights: np.ndarray, left: Bounds) -> list[np.ndarray] | None:
    """Split matrices so that the target sums each part without rounding; None if that is impossible."""
    axis = _summed(weights)
    for amount in range(2, weights.shape[axis] + 1):
        parts = np.array_split(weights, amount, axis=axis)
        if all(greatest_sum(part, left, (axis,)) <= twins.target.exact for part in parts):
            return parts
    return None


def _sliced(twins: IntegerTwins, x: ir.Value, sizes: list[int]) -> list[ir.Value]:
    ends = np.cumsum(sizes)
    last = np.array([-1])
    return [
        twins.op.Slice(x, np.array([end - size]), np.array([end]), last) for size, end in zip(sizes, ends, strict=True)
    ]


def einsum(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Contract along labels, all in 32 bits."""
    values = [value for value in node.inputs if value is not None]
    if any(twins.bounds(value) is None for value in values):
        return NO_INTEGERS
    if len(values) != 2 or not is_exact_product(node, twins.bounds):
        return TOO_LARGE
    if not sums_within(node, twins.bounds, twins.target.exact):
        return TOO_LARGE
    return twins.op.Einsum(*(twins.integer(value, (_INT32,)) for value in values), **node.attributes)


def _small_matmul(twins: IntegerTwins, a: tuple[ir.Value, Bounds], b: tuple[ir.Value, ir.Value, Bounds]) -> ir.Value:
    (x, left), (given, w, right) = a, b
    if x.dtype is _UINT8 and w.dtype is _INT8 and twins.target.saturates and may_saturate(left, right):
        shifted = _shifted(twins, given, right)
        if shifted is None:
            return twins.op.MatMul(twins.cast(x, _INT32), twins.cast(w, _INT32))
        # OpenVINO fails for an omitted input before a given one.
        return twins.op.MatMulInteger(x, shifted[0], np.zeros((), np.uint8), shifted[1])
    return twins.op.MatMulInteger(x, w)


def _shifted(twins: IntegerTwins, given: ir.Value, bounds: Bounds) -> tuple[ir.Value, np.ndarray] | None:
    """Return constant weights as uint8 with their zero point; None if they are not constant."""
    held = constant(given)
    if held is None:
        return None
    array = (held - bounds[0]).astype(np.uint8)
    return twins.op.initializer(array, f"{given.name}_uint8"), np.array(-bounds[0], np.uint8)


def conv(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Convolve integers of eight bits; the bias is added in 32."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None
    assert w is not None
    left, right, added = twins.bounds(x), twins.bounds(w), (0, 0) if bias is None else twins.bounds(bias)
    if left is None or right is None or added is None:
        return NO_INTEGERS
    if not is_exact_product(node, twins.bounds):
        return TOO_LARGE
    found = convolved(twins, node.attributes, (x, left), (w, right))
    return found if bias is None or isinstance(found, str) else with_bias(twins, found, bias, rank(w) or 0)


def convolved(
    twins: IntegerTwins, attributes: Mapping[str, object], x: tuple[ir.Value, Bounds], w: tuple[ir.Value, Bounds]
) -> ir.Value | str:
    """Convolve integers of eight bits, in parts if the weights have more."""
    (image, left), (given, right) = x, w
    small = _small(twins, image, left)
    # ConvInteger multiplies weights with images, so that unsigned weights and signed images may saturate.
    saturates = small is not None and small[0].dtype is _INT8 and twins.target.saturates and may_saturate(right, left)
    weights = _parts(twins, given, right, (_INT8,) if saturates else (_INT8, _UINT8))
    if small is None or weights is None:
        return "no runtime convolves integers of more than eight bits"
    values, zero = small
    zeros = () if zero is None else (zero,)
    found = [twins.op.ConvInteger(values, one, *zeros, **attributes) for one in weights]
    return reduce(twins.op.Add, found)


def joined(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Add in 32 bits; merge a sum of convolutions by digits of weights into one convolution."""
    terms = twins.sums.get(node)
    if not terms or twins.bounds(node.outputs[0]) is None:
        return arithmetic(twins, node)
    x, digits = terms[0].x, terms[0].weights
    weights = np.zeros(())
    for term in terms:
        held = constant(term.weights)
        assert held is not None
        weights = weights + term.factor * held.astype(np.float64)
    image = None if x is None else twins.now(x)
    left, right = twins.bounds(image), bounds_of(weights)
    if image is None or digits is None or left is None or right is None:
        return arithmetic(twins, node)
    if greatest_sum(weights, left, tuple(range(1, weights.ndim))) > twins.target.exact:
        return arithmetic(twins, node)
    given = twins.op.initializer(weights.astype(np.float32), f"{digits.name}_joined")
    found = convolved(twins, terms[0].conv.attributes, (image, left), (given, right))
    return arithmetic(twins, node) if isinstance(found, str) else found


def sums_of_digits(graph: ir.Graph) -> dict[ir.Node, list[ConvolutionTerm]]:
    """Return the sums of convolutions by digits of weights, before anything is converted."""
    found = {node: _terms(node.outputs[0], 1) for node in graph if node.op_type == "Add" and not node.domain}
    return {node: terms for node, terms in found.items() if terms}


def _terms(value: ir.Value | None, factor: int) -> list[ConvolutionTerm] | None:
    """Return the convolutions of one image that are added in doubles to a value; None for other values."""
    node = None if value is None or value.dtype is not ir.DataType.DOUBLE else value.producer()
    if node is None:
        return None
    if node.op_type == "Add":
        parts = [_terms(each, factor) for each in node.inputs]
        terms = [term for part in parts if part is not None for term in part]
        return terms if None not in parts and all(_share_image(terms[0].conv, term.conv) for term in terms) else None
    if node.op_type == "Mul":
        held = constant(node.inputs[1])
        return None if held is None or held.size != 1 else _terms(node.inputs[0], factor * int(held.reshape(-1)[0]))
    source = node.inputs[0].producer() if node.op_type == "Cast" and node.inputs[0] is not None else None
    is_conv = source is not None and source.op_type == "Conv" and not source.domain and len(source.inputs) == 2
    if source is None or not is_conv or constant(source.inputs[1]) is None:
        return None
    return [ConvolutionTerm(factor, source, source.inputs[0], source.inputs[1])]


def _share_image(a: ir.Node, b: ir.Node) -> bool:
    given, other = ({name: each.value for name, each in node.attributes.items()} for node in (a, b))
    return a.inputs[0] is b.inputs[0] and given == other


def _small(twins: IntegerTwins, value: ir.Value, bounds: Bounds) -> tuple[ir.Value, np.ndarray | None] | None:
    """Return integers in eight bits, with a zero point if necessary; None if that is impossible."""
    found = twins.integer(value, SMALL)
    if found is not None:
        return found, None
    low, high = bounds
    wide = twins.integer(value, (_INT32,))
    if wide is None or low > 0 or high - low > np.iinfo(np.uint8).max:
        return None
    shifted = twins.op.Add(wide, np.array(-low, np.int32))
    return twins.op.Cast(shifted, to=_UINT8), np.array(-low, np.uint8)


def _parts(
    twins: IntegerTwins, given: ir.Value, bounds: Bounds, among: tuple[ir.DataType, ...]
) -> list[ir.Value] | None:
    """Return weights in one of the types, or two or three 8-bit tensors with their sum; None if that is impossible."""
    found = twins.integer(given, among)
    if found is not None:
        return [found]
    held = constant(given)
    for amount in (2, 3):
        # The parts of an integer are as equal as possible: those of 7 are 3 and 4.
        ends = bounds[0] // amount, -(-bounds[1] // amount)
        if held is not None and container(ends, (_INT8,)) is not None:
            parts = [np.floor((held + number) / amount).astype(np.int8) for number in range(amount)]
            return [twins.op.initializer(part, f"{given.name}_part") for part in parts]
    return None


def with_bias(twins: IntegerTwins, found: ir.Value, bias: ir.Value, axes: int) -> ir.Value | str:
    """Add the bias of channels in 32 bits."""
    held = constant(bias)
    if held is None or not axes:
        return "its bias is not constant"
    return twins.op.Add(found, held.astype(np.int32).reshape(-1, *(1,) * (axes - 2)))
