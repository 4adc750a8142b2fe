"""Laws of activations: lower them to their definitions, without intermediate overflow."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.shapes import static_shape
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When


def is_floating(value: ir.Value) -> bool:
    """Return whether a value is known to be of floats."""
    return value.dtype is not None and value.dtype.is_floating_point()


def has_elements(value: ir.Value) -> bool:
    """Return whether a value is known to have axes, all of size at least one."""
    shape = static_shape(value)
    return bool(shape) and 0 not in shape


def axes(axis: int) -> list[int]:
    """Return an axis as a list."""
    return [axis]


_law = Vocabulary(axes, has_elements, is_floating).law
_FLOATS = When("is_floating(x)", "the input is not known to be of floats")
_ELEMENTWISE = (When("opset >= 13", "needs opset 13"), _FLOATS)
_ALONG_AXIS = (
    When("opset >= 18", "needs opset 18"),
    _FLOATS,
    When("has_elements(x)", "the input may be empty, or is a scalar"),
)
_SIGMOID = "1.0 / (Exp(-{0}) + 1.0)"
_SOFTPLUS = "Relu(x) + Log(Exp(-Abs(x)) + 1.0)"
_SHIFTED = "x - ReduceMax(x, axes(axis), keepdims=1)"


@passes.verify.tolerance
@passes.register("lower")
class LowerGelu(LawPass):
    """Lower Gelu to arithmetic and an error function or a hyperbolic tangent.

    Rewrites: ``Gelu(x)`` → ``0.5 * x * (1 + Erf(x / √2))``;
              ``Gelu<approximate="tanh">(x)`` → ``0.5 * x * (1 + Tanh(√(2/π) * (x + 0.044715 * x³)))``.
    Refuses:  opsets below 20, which have no Gelu; an input of unknown type.
    Exactness: rounding.
    """

    lowers = ("Gelu",)
    fast_math = ("nsz",)
    laws = (
        _law(
            f'Gelu(x, approximate="none") → x * 0.5 * (Erf(x * {math.sqrt(0.5)}) + 1.0)',
            *_ELEMENTWISE,
            name="Exact",
        ),
        _law(
            'Gelu(x, approximate="tanh") → '
            f"x * 0.5 * (Tanh((x + x * x * x * 0.044715) * {math.sqrt(2 / math.pi)}) + 1.0)",
            *_ELEMENTWISE,
            name="Tanh",
        ),
    )


@passes.verify.tolerance
@passes.register("lower")
class LowerHardsigmoid(LawPass):
    """Lower HardSigmoid to a clipped line.

    Rewrites: ``HardSigmoid<a, b>(x)`` → ``Clip(a * x + b, 0, 1)``.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding; NaN stays NaN, where some kernels return a number.
    """

    lowers = ("HardSigmoid",)
    fast_math = ("nnan", "nsz")
    laws = (_law("HardSigmoid(x, alpha=a, beta=b) → Clip(x * a + b, 0.0, 1.0)", *_ELEMENTWISE),)


@passes.verify.tolerance
@passes.register("lower")
class LowerHardswish(LawPass):
    """Lower HardSwish to a product with a clipped line.

    Rewrites: ``HardSwish(x)`` → ``x * Clip(x / 6 + 0.5, 0, 1)``.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding; NaN stays NaN, where some kernels return a number.
    """

    lowers = ("HardSwish",)
    fast_math = ("nnan", "nsz")
    laws = (_law(f"HardSwish(x) → x * Clip(x * {1 / 6} + 0.5, 0.0, 1.0)", *_ELEMENTWISE),)


@passes.verify.tolerance
@passes.register("lower")
class LowerLogsoftmax(LawPass):
    """Lower LogSoftmax to exponentials and the logarithm of their sum.

    Rewrites: ``LogSoftmax(x)`` → ``d - Log(ReduceSum(Exp(d)))`` with ``d = x - ReduceMax(x)``.
    Refuses:  opsets below 18; an input of unknown type or shape, or an empty one.
    Exactness: rounding; in a row with a NaN, ONNX Runtime may return anything for the other elements.
    """

    lowers = ("LogSoftmax",)
    fast_math = ("nnan", "ninf", "nsz")
    laws = (
        _law(
            f"LogSoftmax(x, axis=axis) → (d := {_SHIFTED}) - Log(ReduceSum(Exp(d), axes(axis), keepdims=1))",
            *_ALONG_AXIS,
        ),
    )


@passes.verify.tolerance
@passes.register("lower")
class LowerMish(LawPass):
    """Lower Mish to elementary functions.

    Rewrites: ``Mish(x)`` → ``x * Tanh(Relu(x) + Log(1 + Exp(-|x|)))``.
    Refuses:  opsets below 18, which have no Mish; an input of unknown type.
    Exactness: rounding; finite also where some kernels overflow.
    """

    lowers = ("Mish",)
    fast_math = ("nnan", "ninf", "nsz")
    laws = (_law(f"Mish(x) → x * Tanh({_SOFTPLUS})", *_ELEMENTWISE),)


@passes.verify.tolerance
@passes.register("lower")
class LowerSigmoid(LawPass):
    """Lower Sigmoid to arithmetic and an exponential.

    The exponential may overflow; its reciprocal is then zero.

    Rewrites: ``Sigmoid(x)`` → ``1 / (1 + Exp(-x))``.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding.
    """

    lowers = ("Sigmoid",)
    laws = (_law(f"Sigmoid(x) → {_SIGMOID.format('x')}", *_ELEMENTWISE),)


@passes.verify.tolerance
@passes.register("lower", aliases={"lower-swish": ""})
class LowerSilu(LawPass):
    """Lower Swish to arithmetic and an exponential.

    Rewrites: ``Swish<a>(x)`` → ``x * (1 / (1 + Exp(-a * x)))``.
    Refuses:  opsets below 24, which have no Swish; an input of unknown type.
    Exactness: rounding.
    """

    lowers = ("Swish",)
    fuzz_hints = hints(
        *(
            f"""<ir_version: 11, opset_import: ["" : 24]> g ({dtype}[{shape}] x) => ({dtype}[{shape}] y)
                {{ y = Swish <alpha = {alpha}> (x) }}"""
            for dtype in ("float", "double")
            for shape in ("2,3", "N,4", "2,0", "5")
            for alpha in (1.0, 1.702)
        )
    )
    laws = (
        _law(f"Swish(x, alpha=1.0) → x * ({_SIGMOID.format('x')})", *_ELEMENTWISE, name="Silu"),
        _law(f"Swish(x, alpha=a) → x * ({_SIGMOID.format('(x * a)')})", *_ELEMENTWISE),
    )


@passes.verify.tolerance
@passes.register("lower")
class LowerSoftmax(LawPass):
    """Lower Softmax to exponentials and their sum.

    Rewrites: ``Softmax(x)`` → ``e / ReduceSum(e)`` with ``e = Exp(x - ReduceMax(x))``, which does not overflow.
    Refuses:  opsets below 18; an input of unknown type or shape, or an empty one.
    Exactness: rounding.
    """

    lowers = ("Softmax",)
    laws = (
        _law(f"Softmax(x, axis=axis) → (e := Exp({_SHIFTED})) / ReduceSum(e, axes(axis), keepdims=1)", *_ALONG_AXIS),
    )


@passes.verify.tolerance
@passes.register("lower")
class LowerSoftplus(LawPass):
    """Lower Softplus to a logarithm and an exponential.

    Rewrites: ``Softplus(x)`` → ``Relu(x) + Log(1 + Exp(-|x|))``, which does not overflow.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding; finite also where some kernels overflow.
    """

    lowers = ("Softplus",)
    fast_math = ("ninf", "nsz")
    laws = (_law(f"Softplus(x) → {_SOFTPLUS}", *_ELEMENTWISE),)
