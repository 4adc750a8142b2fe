"""Laws of LayerNormalization and RMSNormalization: fuse their definitions, with scale and bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, finite_constant, number
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.ops.number_systems.constants import rounded
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_CENTRED_SAMPLES = tuple(
    f"""<ir_version: 9, opset_import: ["" : 18]> g (float[{shape}] x, float[3] v) => (
        float[?,?,3] a, float[?,?,3] b, float[?,?,3] c, float[?,?,3] e)
    <int64[{rank}] axes = {{{axes}}}, float eps = {{{epsilon}}}, float two = {{2}}, float one = {{1}},
     float[3] s = {{0.5,2,-1}}, float[3] h = {{3,2,-1}}> {{
        m = ReduceMean (x, axes) d = Sub (x, m) q = Pow (d, two) r = ReduceMean (q, axes) p = Add (r, eps)
        t = Sqrt (p) a = Div (d, t)
        m1 = ReduceMean (x, axes) d1 = Sub (x, m1) q1 = Mul (d1, d1) r1 = ReduceMean (q1, axes) p1 = Add (r1, eps)
        t1 = Sqrt (p1) i1 = {inverse} b = Mul (d1, i1)
        n2 = LayerNormalization (x, s, h) c = Mul (n2, {factor})
        n3 = LayerNormalization (x, s) e = Add ({added}, n3)
    }}"""
    for shape in ("1,2,3", "2,1,3", "N,2,3")
    for rank, axes, epsilon, inverse, factor, added in (
        (1, "-1", "0.00001", "Reciprocal (t1)", "s", "v"),
        (1, "2", "0.001", "Div (one, t1)", "two", "h"),
        (2, "1,-1", "0.1", "Reciprocal (t1)", "h", "one"),
    )
)
_PLAIN_SAMPLES = tuple(
    f"""<ir_version: 11, opset_import: ["" : 23]> g (float[{shape}] x, float[3] v) => (
        float[?,?,3] a, float[?,?,3] b, float[?,?,3] c)
    <int64[{rank}] axes = {{{axes}}}, float eps = {{{epsilon}}}, float two = {{2}}, float one = {{1}},
     float[3] s = {{0.5,2,-1}}, float[3] h = {{1,1,1}}> {{
        q = Pow (x, two) r = ReduceMean (q, axes) p = Add (r, eps) t = Sqrt (p) a = Div (x, t)
        q1 = Mul (x, x) r1 = ReduceMean (q1, axes) p1 = Add (eps, r1) t1 = Sqrt (p1) i1 = {inverse} b = Mul (x, i1)
        n2 = RMSNormalization (x, h) c = Mul ({factor}, n2)
    }}"""
    for shape in ("1,2,3", "2,1,3", "N,2,3")
    for rank, axes, epsilon, inverse, factor in (
        (1, "-1", "0.00001", "Reciprocal (t1)", "s"),
        (1, "2", "0.001", "Div (one, t1)", "two"),
        (2, "1,-1", "0.1", "Reciprocal (t1)", "v"),
    )
)


def _trailing_axis(node: ir.Node | None, x: ir.Value) -> int | None:
    """Return the first axis of a mean as a negative number; None unless the axes are the last ones of ``x``."""
    dims = rank(x)
    if node is None or dims is None or not node.attributes.get_int("keepdims", 1):
        return None
    given = constant(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get_ints("axes")
    if given is None or len(given) == 0:
        return None
    axes = sorted(int(axis) - dims if axis >= 0 else int(axis) for axis in given)
    return axes[0] if axes == list(range(-len(axes), 0)) else None


def _trailing_shape(x: ir.Value, axis: int) -> tuple[int, ...] | None:
    """Return the sizes of the axes from a negative one on; None if one is unknown."""
    sizes = [dimension(x, i) for i in range(axis, 0)]
    return None if any(size is None for size in sizes) else tuple(size or 0 for size in sizes)


def _is_norm(x: ir.Value, epsilon: ir.Value, *means: ir.Value) -> Answer:
    """Refuse means over different axes, axes that are not the last ones, and unsupported element types."""
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return no("the input is not of single or half precision, as the operator requires", at=x)
    axes = [_trailing_axis(mean.producer(), x) for mean in means]
    if axes[0] is None or any(axis != axes[0] for axis in axes):
        return no("the means are not over the same last axes", at=x)
    shape = _trailing_shape(x, axes[0])
    if shape is None or 0 in shape:
        return no("the sizes of the last axes are not known", at=x)
    added = number(epsilon, x)
    if added is None or not 0 <= added < np.inf:
        return no("epsilon is not a constant number", at=epsilon)
    return yes


def _is_just(value: ir.Value | None, expected: float, x: ir.Value) -> bool:
    """Return whether a constant is exactly the number ``expected``; true if the match lacks it."""
    return value is None or number(value, x) == expected


def _normalized(op: Builder, operator: str, x: ir.Value, mean: ir.Node, epsilon: ir.Value) -> Rewritten:
    """Build a normalization over the axes of a mean, with a scale of ones."""
    axis = _trailing_axis(mean, x)
    assert axis is not None
    shape = _trailing_shape(x, axis)
    assert shape is not None
    assert x.dtype is not None
    ones = op.initializer(np.ones(shape, x.dtype.numpy()), "scale")
    return op.op(operator, x, ones, axis=axis, epsilon=number(epsilon, x))


def _scaled(op: Builder, node: ir.Node, factor: ir.Value) -> Rewritten:
    """Build the normalization with a factor multiplied into its scale and bias."""
    x, scale, *others = node.inputs
    bias = others[0] if others else None
    old, wide = finite_constant(scale), finite_constant(factor)
    if scale is None or old is None or scale.dtype is None or scale.dtype != factor.dtype:
        return no("the scale of the normalization is not constant, or of another type", at=scale)
    if wide is None:
        if bias is None and factor is not node.outputs[0] and (old == 1).all() and factor.shape == old.shape:
            return op.like(node, [x, factor])
        return no("the factor is not constant and finite", at=factor)
    shift = None if bias is None else finite_constant(bias)
    if bias is not None and shift is None:
        return no("the bias of the normalization is not constant and finite", at=bias)
    spread = _spread(wide, old.shape, rank(x))
    if spread is None:
        return no("the factor varies along other than the normalized axes", at=factor)
    made = [rounded(array * spread, scale.dtype) for array in (old, shift) if array is not None]
    finite = [op.initializer(array, "scale") for array in made if array is not None]
    if len(finite) < len(made):
        return no("the new scale would not be finite", at=factor)
    return op.like(node, [x, *finite])


def _shifted(op: Builder, node: ir.Node, added: ir.Value) -> Rewritten:
    """Build the normalization with a summand added to its bias."""
    x, scale, *others = node.inputs
    bias = others[0] if others else None
    if scale is None or scale.shape is None or scale.dtype is None or added.dtype != scale.dtype:
        return no("the scale of the normalization is of unknown shape, or of another type", at=scale)
    wide = finite_constant(added)
    if wide is None:
        fits = added.shape is not None and added.shape == scale.shape and scale.shape.is_static()
        if bias is None and added is not node.outputs[0] and fits:
            return op.like(node, [x, scale, added])
        return no("the summand is not constant and finite", at=added)
    old = None if bias is None else finite_constant(bias)
    if (bias is not None and old is None) or not scale.shape.is_static():
        return no("the bias of the normalization is not constant and finite", at=bias)
    spread = _spread(wide, tuple(int(dim) for dim in scale.shape.numpy()), rank(x))
    if spread is None:
        return no("the summand varies along other than the normalized axes", at=added)
    made = rounded(spread if old is None else spread + old, scale.dtype)
    if made is None:
        return no("the new bias would not be finite", at=added)
    return op.like(node, [x, scale, op.initializer(made, "bias")])


def _spread(array: np.ndarray, shape: tuple[int, ...], dims: int | None) -> np.ndarray | None:
    """Broadcast a constant to the normalized axes; None if it varies along others or enlarges the result."""
    extra = array.ndim - len(shape)
    if dims is None or array.ndim > dims or any(size != 1 for size in array.shape[: max(extra, 0)]):
        return None
    array = array.reshape(array.shape[max(extra, 0) :])
    pairs = zip(reversed(array.shape), reversed(shape), strict=False)
    return np.broadcast_to(array, shape) if all(a in (1, b) for a, b in pairs) else None


_law = Vocabulary(_is_just, _is_norm, _normalized, _scaled, _shifted).law


def _definition(operator: str, since: int, deviation: str, d: str, means: str) -> Sequence[Law]:
    """Build the laws of a deviation divided by the root of its mean square, in its equivalent forms."""
    root = f"root := Sqrt((variance := ReduceMean(Pow({d}, two) | {d} * {d}, ...)) + epsilon)"
    is_norm = (When(f"is_norm(x, epsilon, {means})"), When("is_just(two, 2, x)", "the power is not a square"))
    needs = When(f"opset >= {since}", f"{operator} needs opset {since}")
    built = f"normalized({operator!r}, x, variance, epsilon)"
    return (
        _law(f"{deviation} / ({root}) → {built}", needs, *is_norm, name="Div"),
        _law(
            f"{deviation} * (Reciprocal({root}) | one / root) → {built}",
            needs,
            When("is_just(one, 1, x)", "the reciprocal is not that of one"),
            *is_norm,
            name="Mul",
        ),
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseLayernorm(LawPass):
    """Fuse the definition of LayerNormalization with scale and bias into one node.

    Rewrites: ``d / Sqrt(ReduceMean(d²) + ε)`` with ``d = x - ReduceMean(x)`` → ``LayerNormalization(x, 1)``, with any
              form of the square and the division; ``LayerNormalization(x, s) * c`` → scale, ``+ c`` → bias.
    Refuses:  opsets below 17; means that are not over the same last axes, or drop them; last axes of unknown size;
              other types than single and half precision; a scale or bias that varies along other axes; an intermediate
              value that is used elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_CENTRED_SAMPLES)
    laws = (
        *_definition("LayerNormalization", 17, "(d := x - (mean := ReduceMean(x, ...)))", "d", "mean, variance"),
        _law("(y := LayerNormalization(x, w, ...)) * c → scaled(y, c)", name="Scale"),
        _law("(y := LayerNormalization(x, w, ...)) + c → shifted(y, c)", name="Bias"),
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseRmsnorm(LawPass):
    """Fuse the definition of RMSNormalization with scale into one node.

    Rewrites: ``x / Sqrt(ReduceMean(x²) + ε)`` → ``RMSNormalization(x, 1)``, with any form of the square and the
              division; ``RMSNormalization(x, s) * c`` → scale.
    Refuses:  opsets below 23; a mean that is not over last axes of known size, or drops them; other types than single
              and half precision; a scale that varies along other axes; an intermediate value that is used elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_PLAIN_SAMPLES)
    laws = (
        *_definition("RMSNormalization", 23, "x", "x", "variance"),
        _law("(y := RMSNormalization(x, w)) * c → scaled(y, c)", name="Scale"),
    )
