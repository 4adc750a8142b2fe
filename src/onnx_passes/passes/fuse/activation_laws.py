"""Laws of activations: fuse their definitions, in any grouping, into one operator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.constants import is_number, number
from onnx_passes.graph.shapes import is_common_float
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When


def is_short(value: ir.Value) -> bool:
    """Return whether a value is of single or half precision."""
    return value.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16)


def is_single(value: ir.Value) -> bool:
    """Return whether a value is of single precision."""
    return value.dtype is ir.DataType.FLOAT


def is_about(value: ir.Value | None, expected: float, x: ir.Value) -> bool:
    """Return whether a constant equals ``expected``; true if the match lacks it."""
    return value is None or is_number(value, expected, x)


def is_finite(value: ir.Value, x: ir.Value) -> bool:
    """Return whether a value is a constant number, finite in single precision."""
    found = number(value, x)
    return found is not None and bool(np.isfinite(np.float32(found)))


def is_clipped(low: ir.Value, high: ir.Value, x: ir.Value) -> bool:
    """Return whether the bounds are zero and a finite positive number."""
    top = number(high, x)
    return top is not None and 0 < top < math.inf and number(low, x) == 0


def ratio(above: float | ir.Value, below: ir.Value, x: ir.Value) -> float:
    """Return the quotient of two constant numbers."""
    top, bottom = number(above, x) if isinstance(above, ir.Value) else above, number(below, x)
    assert top is not None
    assert bottom is not None
    return top / bottom


def is_near(found: float, expected: float) -> bool:
    """Return whether an attribute equals a number up to single precision."""
    return math.isclose(found, expected, rel_tol=1e-5)


_law = Vocabulary(is_about, is_clipped, is_common_float, is_finite, is_near, is_short, is_single, ratio).law
_SHORT = When("is_short(x)", "the input is not of single or half precision")
_COMMON = When("is_common_float(x)", "the input is not of floats")
_LINE = "Clip(x + offset, low, high)"
_ON_LINE = (
    When("is_finite(offset, x)", "the offset of the line is not a constant number"),
    _SHORT,
    When("is_clipped(low, high, x)", "the line is not clipped between zero and a number above"),
)
_NOT_ONE = "the clipped line does not end at one"
_DIVIDED = (*_ON_LINE, When("is_number(divisor, number(high, x), x)", _NOT_ONE))
_SCALED = (*_ON_LINE, When("is_number(factor, ratio(1.0, high, x), x)", _NOT_ONE))
_OPSET_14 = When("opset >= 14", "HardSwish needs opset 14")
_SWISH_LINE = (
    _OPSET_14,
    When("is_number(offset, 3.0, x) and is_number(high, 6.0, x)", "the line is not x + 3, clipped at 6"),
)

_LINE_NUMBERS = MappingProxyType(
    {"offset": (3.0,), "low": (0.0,), "high": (6.0,), "divisor": (6.0,), "factor": (1 / 6,)},
)
_LINE_SAMPLES = tuple(
    f"""<ir_version: 9, opset_import: ["" : {version}]> g (float[{shape}] x) => (
        float[{shape}] a, float[{shape}] b, float[{shape}] c, float[{shape}] d)
    <float three = {{3}}, float zero = {{0}}, float six = {{6}}, float sixth = {{0.16666667}}> {{
        s = Add (x, three) t = Clip (s, zero, six) m = Mul (x, t) a = Div (m, six)
        s1 = Add (three, x) t1 = Clip (s1, zero, six) m1 = Mul (t1, x) b = Mul (m1, sixth)
        s2 = Add (x, three) t2 = Clip (s2, zero, six) m2 = {last} c = Mul (x, m2)
        s3 = Add (x, three) t3 = Clip (s3, zero, six) d = {alone}
    }}"""
    for version in (18, 20, 21)
    for shape in ("2,3", "4")
    for last, alone in (
        ("Div (t2, six)", "Mul (sixth, t3)"),
        ("HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)", "Div (t3, six)"),
    )
)

GELU_NUMBERS = {
    "half": 0.5,
    "one": 1.0,
    "root": math.sqrt(2),
    "inverse": math.sqrt(0.5),
    "three": 3.0,
    "cubic": 0.044715,
    "factor": math.sqrt(2 / math.pi),
}
_SAMPLE_GATES = (
    "s = Div (x, root) e = Erf (s) g = Add (e, one)",
    "s = Mul (inverse, x) e = Erf (s) g = Add (one, e)",
    "p = Pow (x, three) q = Mul (cubic, p) r = Add (x, q) t = Mul (factor, r) u = Tanh (t) g = Add (one, u)",
    "s = Div (x, root) e = Erf (s) g = Sum (one, e)",
    "w = Mul (x, x) p = Mul (x, w) q = Mul (p, cubic) r = Add (q, x) t = Mul (r, factor) u = Tanh (t) g = Add (u, one)",
)
_SAMPLE_PRODUCTS = (
    "m = Mul (x, g) y = Mul (m, half)",
    "m = Mul (half, g) y = Mul (m, x)",
    "m = Mul (half, x) y = Mul (m, g)",
)


def gelu_samples(*versions: int) -> tuple[str, ...]:
    """Build models that compute Gelu with the factors in all orders."""
    numbers = ", ".join(f"float {name} = {{{value}}}" for name, value in GELU_NUMBERS.items())
    return tuple(
        f"""<ir_version: 9, opset_import: ["" : {version}]> g (float[{shape}] x) => (float[{shape}] y)
        <{numbers}> {{ {gate} {product} }}"""
        for version in versions
        for shape in ("2,3", "N,5")
        for gate in _SAMPLE_GATES
        for product in _SAMPLE_PRODUCTS
    )


def _plus(a: str, b: str) -> str:
    """Write a sum as Add or, as in the function body of Gelu in ONNX, as Sum."""
    return f"({a} + {b} | Sum({a}, {b}))"


_GATES = {
    "Erf": _plus("Erf(x / root | x * inverse)", "one"),
    "Tanh": _plus(f"Tanh({_plus('x', '(Pow(x, three) | x * (x * x)) * cubic')} * factor)", "one"),
}
_GROUPINGS = {"HalfLast": "x * {0} * half", "InputLast": "x * ({0} * half)", "GateLast": "x * half * {0}"}

_SWISH_SAMPLES = tuple(
    f"""<ir_version: 11, opset_import: ["" : 24]> g ({dtype}[{shape}] x) => ({dtype}[{shape}] a, {dtype}[{shape}] b)
    <{dtype} c = {{{factor}}}> {{
        s = Sigmoid (x) a = Mul (s, x)
        m = Mul (c, x) t = Sigmoid (m) b = Mul (x, t)
    }}"""
    for dtype in ("float", "double")
    for shape in ("2,3", "N,4", "2,0", "5")
    for factor in (1.702, -0.5)
)


def gelu_laws(written: Mapping[str, str], *when: When) -> Sequence[Law]:
    """Build the laws of Gelu, defined by ``Erf`` or ``Tanh``, for all orders of the factors."""
    return tuple(
        _law(
            f"{grouping.format(_GATES[kind])} → {gelu}",
            *when,
            *(
                When(f"is_about({name}, {value}, x)", f"the constant is not {value:.6g}")
                for name, value in GELU_NUMBERS.items()
                if name in _GATES[kind] or name == "half"
            ),
            name=f"{kind}{order}",
        )
        for order, grouping in _GROUPINGS.items()
        for kind, gelu in written.items()
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseGelu(LawPass):
    """Fuse the definition of Gelu, exact or approximate, into one node.

    Rewrites: ``0.5 * x * (1 + Erf(x / √2))`` → ``Gelu(x)``;
              ``0.5 * x * (1 + Tanh(√(2/π) * (x + 0.044715 * x³)))`` → ``Gelu<approximate="tanh">(x)``; with the factors
              of the product in any order.
    Refuses:  opsets below 20; other numbers; other types than single and half precision; an intermediate value that is
              used elsewhere.
    Exactness: rounding; a product that overflows before it is halved may be finite.
    """

    fast_math = ("ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*gelu_samples(20, 21), constants={name: (value,) for name, value in GELU_NUMBERS.items()})
    laws = gelu_laws(
        {"Erf": "Gelu(x)", "Tanh": 'Gelu(x, approximate="tanh")'}, When("opset >= 20", "Gelu needs opset 20"), _SHORT
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseHardsigmoid(LawPass):
    """Fuse a clipped line into HardSigmoid.

    Rewrites: ``Clip(x + b, 0, t) / t`` → ``HardSigmoid<alpha=1/t, beta=b/t>(x)``, also with ``* (1/t)``.
    Refuses:  numbers that are not constant; ``t <= 0``; other types than single and half precision; an intermediate
              value that is used elsewhere.
    Exactness: rounding; NaN may become a number.
    """

    fast_math = ("nnan", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_LINE_SAMPLES, constants=_LINE_NUMBERS)
    laws = tuple(
        _law(f"{line} → HardSigmoid(x, alpha=ratio(1.0, high, x), beta=ratio(offset, high, x))", *when)
        for line, when in ((f"{_LINE} / divisor", _DIVIDED), (f"{_LINE} * factor", _SCALED))
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseHardswish(LawPass):
    """Fuse a product with a hard sigmoid of the same value into HardSwish.

    Rewrites: ``x * HardSigmoid<alpha=1/6, beta=0.5>(x)`` → ``HardSwish(x)``; ``x * Clip(x + 3, 0, 6) / 6`` likewise,
              in any order, and with ``* (1/6)``.
    Refuses:  opsets below 14; other numbers; other types than single and half precision; an intermediate value that is
              used elsewhere.
    Exactness: rounding; NaN may become a number, and a product that overflows before the division a finite one.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_LINE_SAMPLES, constants=_LINE_NUMBERS)
    laws = (
        _law(f"x * {_LINE} / divisor → HardSwish(x)", *_SWISH_LINE, *_DIVIDED, name="DivLast"),
        _law(f"x * {_LINE} * factor → HardSwish(x)", *_SWISH_LINE, *_SCALED, name="MulLast"),
        _law(f"x * ({_LINE} / divisor) → HardSwish(x)", *_SWISH_LINE, *_DIVIDED, name="DivFirst"),
        _law(f"x * ({_LINE} * factor) → HardSwish(x)", *_SWISH_LINE, *_SCALED, name="MulFirst"),
        _law(
            "x * HardSigmoid(x, alpha=a, beta=b) → HardSwish(x)",
            _OPSET_14,
            When(f"is_short(x) and is_near(a, {1 / 6}) and b == 0.5", "the hard sigmoid is not that of HardSwish"),
            name="HardSigmoid",
        ),
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseMish(LawPass):
    """Fuse a product with the hyperbolic tangent of a softplus into Mish.

    Rewrites: ``x * Tanh(Softplus(x))`` → ``Mish(x)``, also where the softplus is ``Log(Exp(x) + 1)``.
    Refuses:  other numbers; opsets below 18; other types than single and half precision; an intermediate value that is
              used elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = hints(constants={"one": (1.0,)})
    laws = (
        _law(
            "x * Tanh(Softplus(x) | Log(Exp(x) + one)) → Mish(x)",
            When("opset >= 18", "Mish needs opset 18"),
            When("is_about(one, 1.0, x)", "the constant is not one"),
            _SHORT,
            name="Mish",
        ),
    )


@passes.verify.tolerance
@passes.register(tags=("fuse",))
class FuseSilu(LawPass):
    """Fuse the product of a value with its sigmoid into Swish.

    Not a member of ``fuse`` or ``simplify``: ONNX Runtime recognises the product and computes it twice as fast.

    Rewrites: ``x * Sigmoid(x)`` → ``Swish(x)``; ``x * Sigmoid(c * x)`` → ``Swish<alpha=c>(x)``.
    Refuses:  opsets below 24; a factor that is not a constant number; types other than floats; a sigmoid that is used
              elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = hints(*_SWISH_SAMPLES)
    laws = (
        _law("x * Sigmoid(x) → Swish(x)", When("opset >= 24", "Swish needs opset 24"), _COMMON, name="Silu"),
        _law(
            "x * Sigmoid(x * c) → Swish(x, alpha=number(c, x))",
            When("opset >= 24", "Swish needs opset 24"),
            _COMMON,
            When("is_finite(c, x)", "the factor is not a constant number"),
            name="Swish",
        ),
    )


@passes.verify.tolerance
@passes.register("fast-math")
class FuseSoftplus(LawPass):
    """Fuse the logarithm of one plus an exponential into Softplus.

    Rewrites: ``Log(Exp(x) + 1)`` → ``Softplus(x)``.
    Refuses:  other numbers; other types than single and half precision; an intermediate value that is used elsewhere.
    Exactness: rounding; where the exponential overflows, the result becomes finite.
    """

    fast_math = ("ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(constants={"one": (1.0,)})
    laws = (
        _law(
            "Log(Exp(x) + one) → Softplus(x)",
            _SHORT,
            When("is_number(one, 1.0, x)", "the constant is not one"),
            name="Softplus",
        ),
    )
