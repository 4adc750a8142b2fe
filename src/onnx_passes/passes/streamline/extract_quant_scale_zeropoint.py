"""Factor scale and zero point out of quantizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import keeps_shape
from onnx_passes.ops.definition import GENERAL_DOMAINS
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

DOMAIN = GENERAL_DOMAINS[0]
_SHORT = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _examples() -> Iterator[str]:
    """Yield fuzzer models, as patterns do not determine consistent parameters."""
    head = f'<ir_version: 10, opset_import: ["" : 20, "{DOMAIN}" : 1]> g (float[2,3] x) => (float[2,3] y)'
    scales = ("float s = {0.3}", "float s = {-2.5}", "float[3] s = {0.5, 0.1, 4.0}", "float[2,1] s = {0.25, 3.0}")
    zeros = ("float z = {0}", "float z = {-0.0}", "float z = {3}", "float[3] z = {0.5, -7, 0}")
    for scale, zero, bits, signed, t in zip(
        scales, zeros, (1, 4, 8, 2), (1, 0, 1, 1), (0.5, 4.0, 1.0, 2.0), strict=True
    ):
        yield f"{head} <{scale}> {{ y = {DOMAIN}.BipolarQuant (x, s) }}"
        call = f"{DOMAIN}.Quant <signed = {signed}, narrow = 0> (x, s, z, b)"
        yield f"{head} <{scale}, {zero}, float b = {{{bits}}}> {{ y = {call} }}"
        parameters = f"float s = {{0.25}}, float z = {{0}}, float i = {{10}}, float t = {{{2 * t}}}, float b = {{4}}"
        call = f'{DOMAIN}.Trunc <signed = {signed}, rounding_mode = "FLOOR"> (x, s, z, i, t, b)'
        yield f"{head} <{parameters}> {{ y = {call} }}"


@passes.verify.equality
@passes.register(tags=("streamline", "quantized"))
class ExtractQuantScaleZeropoint(Transformation, RewriteRuleSetPass):
    """Factor scale and zero point out of activation quantizers, so that they round to integers.

    Rewrites: ``Quant(x, s, z, bits)`` → ``(Quant(x / s + z, 1, 0, bits) - z) * s``; ``BipolarQuant(x, s)`` →
              ``BipolarQuant(x, 1) * s``; ``Trunc(x, s, 0, in, t, out)`` → ``Trunc(x / t, s / t, 0, in, 1, out) * t``.
    Refuses:  quantizers of constants, or of half precision, computed scales or zero points, scales of 0, and Trunc with
              scales whose ratio is not a power of two, or with a zero point.
    Exactness: bit-exact, except for the sign of zeros that a Trunc computes from the smallest floats.
    """

    needs = ("import-qonnx", "shape-inference")
    fast_math = ("nsz",)
    fuzz_hints = MappingProxyType({"models": tuple(_examples())})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each quantizer."""
        return [
            Rule(_quant, _extract_quant, _check, name="Quant"),
            Rule(_bipolar, _extract_bipolar, _check, name="BipolarQuant"),
            Rule(_trunc, _extract_trunc, _check, name="Trunc"),
        ]


def _quant(op: Op, x: Var, s: Var, z: Var, b: Var) -> Var:
    return op.Quant(x, s, z, b, _domain=DOMAIN, _outputs=["y"])


def _bipolar(op: Op, x: Var, s: Var) -> Var:
    return op.BipolarQuant(x, s, _domain=DOMAIN, _outputs=["y"])


def _trunc(op: Op, x: Var, s: Var, z: Var, inner: Var, t: Var, b: Var) -> Var:
    return op.Trunc(x, s, z, inner, t, b, _domain=DOMAIN, _outputs=["y"])


def _check(match: Match, x: ir.Value, y: ir.Value, s: ir.Value, **others: ir.Value) -> Refusal | bool:
    if constant(x) is not None:
        return no("it quantizes a constant", at=x)
    if x.dtype in _SHORT:
        return no("its quotient is in single precision, but a Div would round it to half precision", at=x)
    arrays = {name: constant(value) for name, value in {"s": s, **others}.items() if name in ("s", "z", "t")}
    if any(array is None or not np.isfinite(array).all() for array in arrays.values()):
        return no("its scale or zero point is computed, or not finite", at=y)
    held = {name: np.asarray(array) for name, array in arrays.items()}
    if not held["s"].all():
        return no("its scale is 0", at=s)
    if any(array.ndim > (len(x.shape) if x.shape is not None else 0) for array in held.values()):
        return no("its parameters have a higher rank than its input", at=y)
    if "b" in others and not keeps_shape(x, y, others["b"]):
        return no("its number of bits varies along axes that its input lacks", at=y)
    if "t" in held:
        return _check_trunc(y, held)
    if (held["s"] == 1).all() and not held.get("z", np.zeros(())).any():
        return no("it rounds to integers already", at=y)
    return yes


def _check_trunc(y: ir.Value, held: dict[str, np.ndarray]) -> Refusal | bool:
    s, z, t = held["s"], held["z"], held["t"]
    if z.any():
        return no("it has a zero point", at=y)
    if (t == 1).all():
        return no("it rounds to integers already", at=y)
    ratio = s / t
    if not (np.abs(np.frexp(ratio)[0]) == 0.5).all() or not np.array_equal(ratio * t, s):
        return no("the ratio of its scales is not a power of two", at=y)
    return yes


def _like(x: ir.Value, number: float) -> np.ndarray:
    return np.array(number, np.float32 if x.dtype is None else x.dtype.numpy())


def _shaped(value: ir.Value, like: ir.Value) -> ir.Value:
    """Give a value the type and shape of the quantizer's result."""
    value.type = like.type
    value.shape = None if like.shape is None else like.shape.copy()
    return value


def _extract_quant(op: Builder, x: ir.Value, y: ir.Value, s: ir.Value, z: ir.Value, b: ir.Value) -> ir.Value:
    node = y.producer()
    assert node is not None
    scale, zero = constant(s), constant(z)
    assert scale is not None
    assert zero is not None
    inner = x if (scale == 1).all() else _shaped(op.Div(x, s), y)
    inner = _shaped(op.Add(inner, z), y) if zero.any() else inner
    # A zero point of -0.0 differs from 0.0: it keeps the sign of zeros.
    rest = _like(x, 0) if zero.any() else z
    result = op.like(node, [inner, _like(x, 1), rest, b])
    result = _shaped(op.Sub(_shaped(result, y), z), y) if zero.any() else _shaped(result, y)
    return result if (scale == 1).all() else op.Mul(result, s)


def _extract_bipolar(op: Builder, x: ir.Value, y: ir.Value, s: ir.Value) -> ir.Value:
    node = y.producer()
    assert node is not None
    return op.Mul(_shaped(op.BipolarQuant(x, _like(x, 1), _domain=node.domain), y), s)


def _extract_trunc(
    op: Builder, x: ir.Value, y: ir.Value, s: ir.Value, z: ir.Value, inner: ir.Value, t: ir.Value, b: ir.Value
) -> ir.Value:
    node = y.producer()
    scale, outer = constant(s), constant(t)
    assert node is not None
    assert scale is not None
    assert outer is not None
    attributes = dict(node.attributes.items())
    ratio = np.asarray(scale / outer)
    divided = _shaped(op.Div(x, t), y)
    result = op.Trunc(divided, ratio, z, inner, _like(x, 1), b, _domain=node.domain, **attributes)
    return op.Mul(_shaped(result, y), t)
