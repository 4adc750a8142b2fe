"""Laws of layers with constant weights: fold sums, products and normalization around them into the weights."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import finite_constant, is_number
from onnx_passes.graph.shapes import is_common_float
from onnx_passes.graph.uses import made_by
from onnx_passes.ops.semantics.batch_normalization import Normalization
from onnx_passes.passes.fuse.layers import Layer, is_unpadded, per_input_channel
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

_IMAGES = {
    "image": ((1, 2, 4, 4), (2, 2, 4), (1, 4, 3, 5)),
    "each": ((2, 1, 1), (1, 2, 1, 1), (2, 1), (4, 1, 1), (1,), ()),
}


def halves_gelu(factor: ir.Value, value: ir.Value) -> bool:
    """Return whether a factor is the final half in the definition of Gelu, exact or approximate."""
    node = made_by(value, "Mul") if is_number(factor, 0.5, value) else None
    gates = () if node is None else [made_by(operand, "Add") for operand in node.inputs]
    return any(gate is not None and any(made_by(operand, "Erf", "Tanh") for operand in gate.inputs) for gate in gates)


def _normalized(op: Builder, node: ir.Node, normalization: ir.Node) -> Rewritten:
    read = normalization_of(normalization)
    if isinstance(read, Refusal):
        return read
    layer, y = Layer.of(node), node.outputs[0]
    if isinstance(layer, Refusal):
        return layer
    if node.op_type == "MatMul" and (layer.rank != 2 or not is_common_float(y)):
        return no("the product is not of matrices of floats", at=y)
    return layer.affine(op, *read)


def unusual(node: ir.Node) -> Refusal | None:
    """Return the reason why a batch normalization is not one factor and one shift per channel; None if it is."""
    if node.attributes.get_int("training_mode", 0):
        return no("the normalization is in training mode", at=node)
    if not node.attributes.get_int("spatial", 1):
        return no("the normalization has parameters for each pixel", at=node)
    return None


def normalization_of(node: ir.Node) -> tuple[np.ndarray, np.ndarray] | Refusal:
    """Return a batch normalization as one factor and one shift per channel, in double precision."""
    refusal = unusual(node)
    if refusal is not None:
        return refusal
    found: list[np.ndarray] = []
    for value in node.inputs[1:5]:
        array = finite_constant(value)
        if array is None:
            return no("a parameter of the normalization is not constant and finite", at=value)
        found.append(array)
    normal = Normalization.of(node, found)
    if isinstance(normal, str):
        return no(normal, at=node.inputs[4])
    factors, shifts = normal.factor.near, normal.offset.near
    if not (np.isfinite(factors).all() and np.isfinite(shifts).all()):
        return no("the variance is not positive", at=node.inputs[4])
    return factors, shifts


def _shifted(op: Builder, node: ir.Node, c: ir.Value, sign: int) -> Rewritten:
    array = finite_constant(c)
    if array is None:
        return no("the summand is not constant and finite", at=c)
    layer = Layer.of(node)
    if isinstance(layer, Refusal):
        return layer
    shift = layer.spread(array)
    if shift is None:
        return no("the summand is not one number for each channel", at=c)
    return layer.shifted(op, sign * shift)


def _shifted_by_input(op: Builder, node: ir.Node, image: ir.Value, each: ir.Value) -> Rewritten:
    array = finite_constant(each)
    if array is None:
        return no("the summand is not constant and finite", at=each)
    layer = Layer.of(node)
    if isinstance(layer, Refusal):
        return layer
    if not is_unpadded(layer.node):
        return no("the convolution is padded", at=layer.node)
    shift = per_input_channel(layer, image, array)
    if shift is None:
        return no("the summand is not one number for each channel of the input", at=each)
    weights = layer.weights()
    if isinstance(weights, Refusal):
        return weights
    sums = np.sum(weights, axis=tuple(range(2, weights.ndim)))
    outputs, inputs = sums.shape
    groups = layer.node.attributes.get_int("group", 1)
    with np.errstate(all="ignore"):
        added = np.einsum("goi,gi->go", sums.reshape(groups, outputs // groups, inputs), shift.reshape(groups, inputs))
    return layer.shifted(op, added.reshape(-1), image)


def _inverse(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None or (array == 0).any() else 1 / array


def _scaled(op: Builder, node: ir.Node, array: np.ndarray | None) -> Rewritten:
    if array is None:
        return no("the factor is not constant and finite", at=node)
    layer = Layer.of(node)
    if isinstance(layer, Refusal):
        return layer
    factors = layer.spread(array)
    if factors is None:
        return no("the factor is not one number for each channel", at=node)
    return layer.affine(op, factors)


def _scaled_by_input(op: Builder, node: ir.Node, image: ir.Value, each: ir.Value) -> Rewritten:
    array = finite_constant(each)
    if array is None:
        return no("the factor is not constant and finite", at=each)
    layer = Layer.of(node)
    if isinstance(layer, Refusal):
        return layer
    factors = per_input_channel(layer, image, array)
    if factors is None:
        return no("the factor is not one number for each channel of the input", at=each)
    weights = layer.weights()
    if isinstance(weights, Refusal):
        return weights
    groups = layer.node.attributes.get_int("group", 1)
    outputs, inputs, *kernel = layer.shape
    with np.errstate(all="ignore"):
        grouped = weights.reshape(groups, outputs // groups, inputs, *kernel)
        scaled = grouped * factors.reshape(groups, 1, inputs, *[1] * len(kernel))
    return layer.rebuild(op, scaled.reshape(layer.shape), layer.bias, image)


_law = Vocabulary(
    _inverse,
    _normalized,
    _scaled,
    _scaled_by_input,
    _shifted,
    _shifted_by_input,
    finite_constant,
    halves_gelu,
    Biased=("Conv", "ConvTranspose", "Gemm"),
    Layer=("Conv", "ConvTranspose", "Gemm", "MatMul"),
).law


@passes.verify.tolerance
@passes.register("fuse")
class FuseBatchnorm(LawPass):
    """Fold batch normalization into the weights and the bias of the layer before it.

    Rewrites: ``BatchNormalization(Conv(x, w, b), …)`` → ``Conv(x, w', b')``, also after ``ConvTranspose``, ``Gemm``
              and, as a ``Gemm``, after ``MatMul`` of matrices.
    Refuses:  training mode; parameters that are not constant, not finite, or would not be finite after folding;
              weights that are used elsewhere, unless they are small; a layer whose result is used elsewhere.
    Exactness: rounding; computed in double precision and rounded once. Sums that overflow before the
              normalization may be finite after it.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64"))
    laws = (
        _law(
            "BatchNormalization(y := Layer(x, w, ...), scale, shift, mean, variance) → normalized(y, result)",
            name="FuseBatchnorm",
        ),
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseBias(LawPass):
    """Fold a constant that is added after a layer, or before a convolution, into the bias.

    Rewrites: ``Conv(x, w, b) ± c`` → ``Conv(x, w, b ± c)``, also for ``ConvTranspose`` and ``Gemm``;
              ``Conv(x + c, w, b)`` → ``Conv(x, w, b')``.
    Refuses:  summands that are not constant and finite, or not one number or one for each channel; a layer whose result
              is used elsewhere; before a convolution also padding, which would not get the constant.
    Exactness: rounding; computed in double precision and rounded once.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64"), shapes=_IMAGES)
    laws = (
        _law("(y := Biased(x, w, ...)) + c → shifted(y, c, 1)", name="AddAfter"),
        _law("(y := Biased(x, w, ...)) - c → shifted(y, c, -1)", name="SubAfter"),
        _law("Conv(image + each, w, ...) → shifted_by_input(result, image, each)", name="AddBefore"),
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseScale(LawPass):
    """Fold a constant factor after a layer, or before a convolution, into the weights of the layer.

    Rewrites: ``Conv(x, w, b) * c`` → ``Conv(x, w * c, b * c)``, with ``/`` too, also for ``ConvTranspose``, ``Gemm``
              and ``MatMul``; ``Conv(x * c, w, b)`` → ``Conv(x, w * c, b)``.
    Refuses:  factors that are not constant and finite, or not one number or one for each channel; weights that would
              not be finite; weights that are used elsewhere, unless they are small; a layer whose result is used
              elsewhere; the half of a decomposed Gelu, which is recognised by it.
    Exactness: rounding; computed in double precision and rounded once. A result that overflows before the factor may be
              finite after it.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64"), shapes=_IMAGES)
    laws = (
        _law("(y := Layer(x, w, ...)) * c → scaled(y, finite_constant(c))", name="MulAfter"),
        _law("(y := Layer(x, w, ...)) / c → scaled(y, inverse(finite_constant(c)))", name="DivAfter"),
        _law(
            "Conv(image * each, w, ...) → scaled_by_input(result, image, each)",
            When("not halves_gelu(each, image)", "the factor is the half of a Gelu"),
            name="MulBefore",
        ),
    )
