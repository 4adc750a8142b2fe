"""Laws of activations with operators in ONNX Runtime's own domain."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.passes.fuse.activation_laws import gelu_laws, gelu_samples, is_finite, is_single
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When


def is_bias(b: ir.Value, x: ir.Value) -> bool:
    """Return whether a value is a vector along the last axis of ``x``."""
    size = dimension(b, 0)
    return b.dtype is ir.DataType.FLOAT and rank(b) == 1 and size is not None and size == dimension(x, -1)


_law = Vocabulary(is_bias, is_finite, is_single).law
_SINGLE = When("is_single(x)", "the input is not of single precision")
_BIAS = When("is_bias(b, x)", "the summand is not a bias along the last axis")


def _models(*bodies: str, opset: int = 20) -> tuple[str, ...]:
    """Build models from bodies that compute ``y`` from ``x`` and a bias ``b``."""
    return tuple(
        f"""<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[{shape}] x) => (float[{shape}] y) <float[3] b = {{0.5,-1,2}}, float c = {{1.702}}> {{ {body} }}"""
        for body in bodies
        for shape in ("2,3", "N,2,3", "3")
    )


@passes.verify.tolerance
@passes.register("fuse-onnxruntime")
class FuseMicrosoftGelu(LawPass):
    """Fuse the definition of Gelu into an operator of ONNX Runtime, below the opset that has Gelu.

    Rewrites: ``0.5 * x * (1 + Erf(x / √2))`` → ``com.microsoft.Gelu(x)``; ``0.5 * x * (1 + Tanh(√(2/π) * (x + 0.044715
              * x³)))`` → ``com.microsoft.FastGelu(x)``; with the factors of the product in any order.
    Refuses:  opsets from 20 on, which have Gelu; other numbers; other types than single precision; an intermediate
              value that is used elsewhere.
    Exactness: rounding; a product that overflows before it is halved may be finite.
    """

    fast_math = ("ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*gelu_samples(17, 18))
    laws = gelu_laws(
        {"Erf": "com.microsoft.Gelu(x)", "Tanh": "com.microsoft.FastGelu(x)"},
        When("opset < 20", "ONNX has Gelu from opset 20 on: use fuse-gelu"),
        _SINGLE,
    )


@passes.verify.tolerance
@passes.register("fuse-onnxruntime")
class FuseFastGelu(LawPass):
    """Fuse the approximate Gelu, with a bias, into FastGelu of ONNX Runtime.

    Rewrites: ``Gelu<approximate="tanh">(x)`` → ``com.microsoft.FastGelu(x)``;
              ``com.microsoft.FastGelu(x + b)`` → ``com.microsoft.FastGelu(x, b)``.
    Refuses:  the exact Gelu; a bias that is not a vector along the last axis; other types than single precision; a sum
              that is used elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = hints(*_models('y = Gelu <approximate = "tanh"> (x)', "s = Add (x, b) y = com.microsoft.FastGelu (s)"))
    laws = (
        _law(
            "Gelu(x, approximate=a) → com.microsoft.FastGelu(x)",
            When('a == "tanh"', "it is the exact Gelu"),
            _SINGLE,
            name="Tanh",
        ),
        _law("com.microsoft.FastGelu(x + b) → com.microsoft.FastGelu(x, b)", _SINGLE, _BIAS, name="Bias"),
    )


@passes.verify.tolerance
@passes.register(tags=("onnxruntime",))
class FuseBiasGelu(LawPass):
    """Fuse a bias and the exact Gelu after it into BiasGelu of ONNX Runtime.

    Rewrites: ``Gelu(x + b)`` → ``com.microsoft.BiasGelu(x, b)``; ``com.microsoft.Gelu(x + b)`` likewise.
              For devices with a fast kernel: on a CPU it takes 1.3 times as long as separate operators, so that it is
              not a member of ``fuse-onnxruntime``.
    Refuses:  the approximate Gelu; a bias that is not a vector along the last axis; other types than single precision;
              a sum that is used elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = hints(*_models("s = Add (b, x) y = Gelu (s)", "s = Add (x, b) y = com.microsoft.Gelu (s)"))
    laws = (
        _law(
            "Gelu(x + b, approximate=a) → com.microsoft.BiasGelu(x, b)",
            When('a == "none"', "it is the approximate Gelu"),
            _SINGLE,
            _BIAS,
            name="Gelu",
        ),
        _law("com.microsoft.Gelu(x + b) → com.microsoft.BiasGelu(x, b)", _SINGLE, _BIAS, name="MicrosoftGelu"),
    )


@passes.verify.tolerance
@passes.register("fuse-onnxruntime")
class FuseQuickGelu(LawPass):
    """Fuse the product of a value with its sigmoid into QuickGelu of ONNX Runtime.

    Rewrites: ``x * Sigmoid(x * c)`` → ``com.microsoft.QuickGelu<alpha=c>(x)``; ``x * Sigmoid(x)`` with ``alpha=1``;
              ``Swish<alpha=c>(x)`` likewise.
    Refuses:  a factor that is not a constant number; other types than single precision; a sigmoid that is used
              elsewhere.
    Exactness: rounding.
    """

    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = hints(
        *_models("m = Mul (c, x) s = Sigmoid (m) y = Mul (x, s)", "s = Sigmoid (x) y = Mul (s, x)"),
        *_models("y = Swish <alpha = 1.702> (x)", opset=24),
    )
    laws = (
        _law(
            "x * Sigmoid(x * c) → com.microsoft.QuickGelu(x, alpha=number(c, x))",
            _SINGLE,
            When("is_finite(c, x)", "the factor is not a constant number"),
            name="QuickGelu",
        ),
        _law("x * Sigmoid(x) → com.microsoft.QuickGelu(x, alpha=1.0)", _SINGLE, name="Silu"),
        _law("Swish(x, alpha=a) → com.microsoft.QuickGelu(x, alpha=a)", _SINGLE, name="Swish"),
    )
