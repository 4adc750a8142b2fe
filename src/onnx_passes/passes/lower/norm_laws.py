"""Laws of normalizations over the last axes: lower them to means, a root and a division."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import rank
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_FAST_MATH = ("nnan", "ninf", "nsz", "reassoc", "contract")


def _is_known(node: ir.Node, x: ir.Value) -> Answer:
    """Refuse types for which kernels deviate from the definition, and unknown axes."""
    if x.dtype is None or not x.dtype.is_floating_point():
        return no("the input is not known to be of floats", at=x)
    is_short = x.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16)
    if not is_short or node.attributes.get_int("stash_type", 1) != ir.DataType.FLOAT.value:
        return no("the input is not of single or half precision, computed in single precision", at=x)
    return yes if rank(x) else no("the rank of the input is not known", at=x)


def _definition(op: Builder, node: ir.Node, x: ir.Value, centred: bool) -> Rewritten:
    """Build the normalization in single precision, then scale and shift its result."""
    dims, is_half = rank(x) or 0, x.dtype is ir.DataType.FLOAT16
    axes = list(range(node.attributes.get_int("axis", -1) % dims, dims))
    wide = op.Cast(x, to=ir.DataType.FLOAT.value) if is_half else x
    if centred:
        wide = op.Sub(wide, _mean(op, wide, axes))
    variance = _mean(op, op.Mul(wide, wide), axes)
    result = op.Div(wide, op.Sqrt(op.Add(variance, node.attributes.get_float("epsilon", 1e-5))))
    if is_half:
        result = op.Cast(result, to=ir.DataType.FLOAT16.value)
    scale, *others = node.inputs[1:]
    result = op.Mul(result, scale)
    return op.Add(result, others[0]) if others and others[0] is not None else result


def _mean(op: Builder, value: ir.Value, axes: list[int]) -> ir.Value:
    """Build a mean over axes, which were an attribute before opset 18."""
    if op.opset < 18:
        return op.ReduceMean(value, axes=axes, keepdims=1)
    return op.ReduceMean(value, axes, keepdims=1)


_law = Vocabulary(_definition, _is_known).law
_KNOWN = (When("opset >= 17", "needs opset 17"), When("is_known(result, x)"))


@passes.verify.tolerance
@passes.register("lower")
class LowerLayernorm(LawPass):
    """Lower LayerNormalization to means, a root and a division.

    Rewrites: ``LayerNormalization(x, s, b)`` → ``d / Sqrt(ReduceMean(d * d) + ε) * s + b`` with
              ``d = x - ReduceMean(x)``, in single precision.
    Refuses:  opsets below 17, which have no LayerNormalization; other types than single and half precision; an input of
              unknown rank; mean or deviation that are used.
    Exactness: rounding.
    """

    lowers = ("LayerNormalization",)
    fast_math = _FAST_MATH
    laws = (_law("LayerNormalization(x, ...) → definition(result, x, True)", *_KNOWN, name="LowerLayernorm"),)


@passes.verify.tolerance
@passes.register("lower")
class LowerRmsnorm(LawPass):
    """Lower RMSNormalization to a mean, a root and a division.

    Rewrites: ``RMSNormalization(x, s)`` → ``x / Sqrt(ReduceMean(x * x) + ε) * s``, in single precision.
    Refuses:  opsets below 23, which have no RMSNormalization; other types than single and half precision; an input of
              unknown rank.
    Exactness: rounding.
    """

    lowers = ("RMSNormalization",)
    fast_math = _FAST_MATH
    fuzz_hints = hints(
        *(
            f"""<ir_version: 11, opset_import: ["" : 23]> g (float[{shape},3] x) => (float[{shape},3] y)
                <float[3] s = {{1,-2,0.5}}> {{ y = RMSNormalization <axis = {axis}, epsilon = {epsilon}> (x, s) }}"""
            for epsilon in (0.00001, 0.1)
            for shape in ("2", "N", "1,2", "N,2")
            for axis in (-1, len(shape.split(",")))
        )
    )
    laws = (_law("RMSNormalization(x, ...) → definition(result, x, False)", *_KNOWN, name="LowerRmsnorm"),)
