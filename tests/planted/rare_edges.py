"""Rewrites that are wrong only at an edge: a bound, a threshold, a tie, or one unit in the last place beside it."""

from __future__ import annotations

import numpy as np

from onnx_passes import constant, passes
from tests.planted.planting import Fault, text
from tests.planted.rare import chain, down, planted, up

BEFORE = "u = Mul(x, factor) v = Add(u, term)"
AFFINE = "float factor = {0.7}, float term = {0.2}"
PER_CHANNEL = (
    "float[8] factor = {0.7, 1.3, 0.11, 2.9, 0.37, 5.1, 0.9, 1.7}, "
    "float[8] term = {0.2, -0.3, 0.7, -1.1, 3.3, 0.01, -0.9, 2.3}"
)
_random = np.random.default_rng(5)
_STEPS = np.sort(_random.normal(size=(8, 7)).astype(np.float32) * 2, axis=1)


def _steps(steps: np.ndarray = _STEPS) -> str:
    return f"float[{steps.shape[0]},{steps.shape[1]}] t = {{{', '.join(repr(float(s)) for s in steps.flat)}}}"


def thresholds(before: str, initializers: str) -> str:
    return text(
        "float[3,8] x",
        "float[] y",
        f'{before} w = qonnx.custom_op.general.MultiThreshold<data_layout = "NC">(v, t) y = Neg(w)',
        initializers=f"{initializers}, {_steps()}",
        domains='"qonnx.custom_op.general": 2',
    )


def threshold(op, v, t):
    return op.MultiThreshold(v, t, _domain="qonnx.custom_op.general")


def again(op, v, t):
    return op.MultiThreshold(v, t, _domain="qonnx.custom_op.general", data_layout="NC")


def moved(t) -> np.ndarray:
    steps = constant(t).copy()
    steps[5, 3] = np.nextafter(steps[5, 3], np.float32(9))
    return steps


def compared(operator: str, before: str = "v = Neg(x)", limit: float = 0.3, more: str = "") -> str:
    constants = f"float limit = {{{limit}}}" + (f", {more}" if more else "")
    return chain(f"{before} w = {operator}(v, limit) y = Not(w)", result="bool", initializers=constants)


def rounded(step: float, before: str = "v = Neg(x)", more: str = "") -> str:
    constants = f"float step = {{{step}}}" + (f", {more}" if more else "")
    return chain(f"{before} d = Div(v, step) r = Round(d) y = Neg(r)", initializers=constants)


def clipped(low: float, high: float, before: str = "v = Neg(x)", more: str = "", behind: str = "y = Neg(w)") -> str:
    constants = f"float low = {{{low}}}, float high = {{{high}}}" + (f", {more}" if more else "")
    return chain(f"{before} w = Clip(v, low, high) {behind}", initializers=constants)


def no_clip(op, v, low, high):
    return op.Identity(v)


def clip(op, v, low, high):
    return op.Clip(v, low, high)


def _round_pattern(self, op, v, step):
    return op.Round(op.Div(v, step))


def _half_up(self, op, v, step):
    return op.Floor(op.Add(op.Div(v, step), np.float32(0.5)))


def _half_away(self, op, v, step):
    d = op.Div(v, step)
    return op.Mul(op.Sign(d), op.Floor(op.Add(op.Abs(d), np.float32(0.5))))


def _by_reciprocal(self, op, v, step):
    return op.Round(op.Mul(v, np.float32(1) / constant(step)))


FAULTS: list[Fault] = [
    planted(
        "Greater for GreaterOrEqual",
        "comparison",
        compared("GreaterOrEqual"),
        lambda self, op, v, limit: op.GreaterOrEqual(v, limit),
        lambda self, op, v, limit: op.Greater(v, limit),
    ),
    planted(
        "LessOrEqual for Less behind a factor",
        "comparison",
        compared("Less", "v = Mul(x, factor)", 1.1, "float factor = {0.7}"),
        lambda self, op, v, limit: op.Less(v, limit),
        lambda self, op, v, limit: op.LessOrEqual(v, limit),
    ),
    planted(
        "limit moved by an ulp",
        "comparison",
        compared("Greater", limit=1.7),
        lambda self, op, v, limit: op.Greater(v, limit),
        lambda self, op, v, limit: op.Greater(v, up(limit)),
    ),
    planted(
        "limit moved by an ulp behind factors and terms of channels",
        "comparison",
        compared("Greater", BEFORE, 1.9, PER_CHANNEL),
        lambda self, op, v, limit: op.Greater(v, limit),
        lambda self, op, v, limit: op.Greater(v, down(limit)),
    ),
    planted(
        "limit behind Sigmoid and its inverse",
        "comparison",
        compared("Greater", "v = Sigmoid(x)", 0.731),
        lambda self, op, x, limit: op.Greater(op.Sigmoid(x), limit),
        lambda self, op, x, limit: op.Greater(x, np.float32(np.log(0.731 / (1 - 0.731)))),
    ),
    planted(
        "limit less the term",
        "comparison",
        compared("Greater", "v = Add(x, term)", -0.4, "float term = {0.38}"),
        lambda self, op, x, term, limit: op.Greater(op.Add(x, term), limit),
        lambda self, op, x, term, limit: op.Greater(x, constant(limit) - constant(term)),
    ),
    planted(
        "limit out of the ordinary",
        "comparison",
        compared("Less", limit=-5000.0),
        lambda self, op, v, limit: op.Less(v, limit),
        lambda self, op, v, limit: op.And(op.Less(v, limit), op.Greater(v, limit)),
    ),
    planted(
        "Equal of a float and a constant",
        "comparison",
        compared("Equal", "v = Mul(x, factor)", 1.5, "float factor = {0.3}"),
        lambda self, op, v, limit: op.Equal(v, limit),
        lambda self, op, v, limit: op.And(op.Greater(v, limit), op.Less(v, limit)),
    ),
    planted(
        "Where with a limit and its neighbour",
        "comparison",
        chain(
            f"{BEFORE} b = Less(v, limit) w = Where(b, low, v) y = Neg(w)",
            initializers=f"{AFFINE}, float limit = {{0.55}}, float low = {{-3.0}}",
        ),
        lambda self, op, v, limit: op.Less(v, limit),
        lambda self, op, v, limit: op.Less(v, up(limit)),
    ),
    planted(
        "Sign of zero behind a term",
        "comparison",
        chain("v = Add(x, term) w = Sign(v) y = Neg(w)", initializers="float term = {0.3}"),
        lambda self, op, v: op.Sign(v),
        lambda self, op, v: op.Where(op.Greater(v, np.float32(0)), np.float32(1), np.float32(-1)),
    ),
    planted(
        "threshold moved by an ulp",
        "threshold",
        thresholds("v = Neg(x)", AFFINE),
        lambda self, op, v, t: threshold(op, v, t),
        lambda self, op, v, t: again(op, v, moved(t)),
    ),
    planted(
        "factor absorbed into thresholds",
        "threshold",
        thresholds("n = Neg(x) v = Mul(n, factor)", PER_CHANNEL),
        lambda self, op, n, factor, t: threshold(op, op.Mul(n, factor), t),
        lambda self, op, n, factor, t: again(op, n, constant(t) / constant(factor)[:, None]),
    ),
    planted(
        "term absorbed into thresholds",
        "threshold",
        thresholds("n = Neg(x) v = Add(n, term)", PER_CHANNEL),
        lambda self, op, n, term, t: threshold(op, op.Add(n, term), t),
        lambda self, op, n, term, t: again(op, n, constant(t) - constant(term)[:, None]),
    ),
    planted(
        "thresholds that are not reached when equal",
        "threshold",
        thresholds(BEFORE, PER_CHANNEL),
        lambda self, op, v, t: threshold(op, v, t),
        lambda self, op, v, t: again(op, v, np.nextafter(constant(t), np.float32(np.inf))),
    ),
    planted("halves rounded up", "tie", rounded(0.3), _round_pattern, _half_up),
    planted("halves rounded away from zero", "tie", rounded(0.25), _round_pattern, _half_away),
    planted(
        "halves rounded up behind a term",
        "tie",
        rounded(0.5, "v = Add(x, term)", "float term = {0.37}"),
        _round_pattern,
        _half_up,
    ),
    planted("reciprocal before Round", "tie", rounded(0.3), _round_pattern, _by_reciprocal),
    planted(
        "reciprocal before Floor",
        "tie",
        chain("v = Neg(x) d = Div(v, step) r = Floor(d) y = Neg(r)", initializers="float step = {0.1}"),
        lambda self, op, v, step: op.Floor(op.Div(v, step)),
        lambda self, op, v, step: op.Floor(op.Mul(v, np.float32(1) / constant(step))),
    ),
    planted(
        "Ceil as one more than Floor",
        "tie",
        chain("u = Mul(x, factor) w = Ceil(u) y = Neg(w)", initializers="float factor = {0.3}"),
        lambda self, op, u: op.Ceil(u),
        lambda self, op, u: op.Add(op.Floor(u), np.float32(1)),
    ),
    planted(
        "ties of a quantizer rounded up",
        "tie",
        chain(
            "v = Neg(x) q = QuantizeLinear(v, scale, zero) w = DequantizeLinear(q, scale, zero) y = Neg(w)",
            initializers="float scale = {0.1}, int8 zero = {3}",
        ),
        lambda self, op, v, scale, zero: op.DequantizeLinear(op.QuantizeLinear(v, scale, zero), scale, zero),
        lambda self, op, v, scale, zero: op.Mul(
            op.Clip(op.Floor(op.Add(op.Div(v, scale), np.float32(0.5))), np.float32(-131), np.float32(124)), scale
        ),
    ),
    planted(
        "saturation of a quantizer one level off",
        "saturation",
        chain(
            "v = Mul(x, factor) q = QuantizeLinear(v, scale, zero) w = DequantizeLinear(q, scale, zero) y = Neg(w)",
            initializers="float scale = {0.3}, int8 zero = {0}, float factor = {0.013}",
        ),
        lambda self, op, v, scale, zero: op.DequantizeLinear(op.QuantizeLinear(v, scale, zero), scale, zero),
        lambda self, op, v, scale, zero: op.Mul(
            op.Clip(op.Round(op.Div(v, scale)), np.float32(-127), np.float32(127)), scale
        ),
    ),
    planted(
        "saturation of Quant behind a term",
        "saturation",
        text(
            "float[3,8] x",
            "float[] y",
            "v = Add(x, term) w = qonnx.custom_op.general.Quant<signed = 1>(v, scale, zero, bits) y = Neg(w)",
            initializers="float term = {0.37}, float scale = {0.7}, float zero = {0.0}, float bits = {8.0}",
            domains='"qonnx.custom_op.general": 2',
        ),
        lambda self, op, v, scale, zero, bits: op.Quant(v, scale, zero, bits, _domain="qonnx.custom_op.general"),
        lambda self, op, v, scale, zero, bits: op.Mul(
            op.Clip(op.Round(op.Div(v, scale)), np.float32(-128), np.float32(126)), scale
        ),
    ),
    planted(
        "bounds that are seldom reached",
        "bound",
        clipped(-6000.0, 6000.0),
        lambda self, op, v, low, high: clip(op, v, low, high),
        lambda self, op, v, low, high: no_clip(op, v, low, high),
    ),
    planted(
        "bounds that are seldom reached behind a small factor",
        "bound",
        clipped(-40.0, 40.0, "u = Mul(x, factor) v = Add(u, term)", "float factor = {0.013}, float term = {0.2}"),
        lambda self, op, v, low, high: clip(op, v, low, high),
        lambda self, op, v, low, high: no_clip(op, v, low, high),
    ),
    planted(
        "upper bound one ulp lower",
        "bound",
        clipped(-1e30, 2500.0),
        lambda self, op, v, low, high: clip(op, v, low, high),
        lambda self, op, v, low, high: op.Clip(v, low, down(high)),
    ),
    planted(
        "lower bound dropped behind Exp",
        "bound",
        chain(
            "v = Exp(x) w = Clip(v, low, high) y = Log(w)", initializers="float low = {0.0000002}, float high = {500.0}"
        ),
        lambda self, op, v, low, high: op.Clip(v, low, high),
        lambda self, op, v, low, high: op.Min(v, high),
        claim=passes.verify.tolerance,
    ),
    planted(
        "Relu6 without the six behind a factor",
        "bound",
        clipped(0.0, 6.0, "v = Mul(x, factor)", "float factor = {0.005}"),
        lambda self, op, v, low, high: clip(op, v, low, high),
        lambda self, op, v, low, high: op.Relu(v),
    ),
    planted(
        "one branch of a hard sigmoid",
        "bound",
        chain("w = HardSigmoid<alpha=0.0002, beta=0.5>(x) y = Neg(w)"),
        lambda self, op, x: op.HardSigmoid(x),
        lambda self, op, x: op.Add(op.Mul(x, np.float32(0.0002)), np.float32(0.5)),
        claim=passes.verify.tolerance,
    ),
    planted(
        "ThresholdedRelu at its threshold",
        "bound",
        chain(f"{BEFORE} w = ThresholdedRelu<alpha=1.3>(v) y = Neg(w)", initializers=AFFINE),
        lambda self, op, v: op.ThresholdedRelu(v),
        lambda self, op, v: op.Where(op.Less(v, np.float32(1.3)), np.float32(0), v),
    ),
    planted(
        "comparison behind a product",
        "inside",
        text(
            "float[4,16] x",
            "bool[] y",
            "u = MatMul(x, weights) v = Add(u, bias) w = Greater(v, limit) y = Not(w)",
            initializers=f"float[16,8] weights = {{{', '.join(f'{n:.4f}' for n in _random.normal(size=128) / 4)}}}, "
            "float[8] bias = {0.5, -0.25, 1.5, 0.75, -1.0, 0.125, 2.0, -0.5}, float limit = {0.8}",
        ),
        lambda self, op, v, limit: op.Greater(v, limit),
        lambda self, op, v, limit: op.GreaterOrEqual(v, limit),
    ),
    planted(
        "halves rounded up behind a product",
        "inside",
        text(
            "float[4,16] x",
            "float[] y",
            "u = MatMul(x, weights) v = Relu(u) d = Div(v, step) r = Round(d) y = Neg(r)",
            initializers=f"float[16,8] weights = {{{', '.join(f'{n:.4f}' for n in _random.normal(size=128) / 4)}}}, "
            "float step = {0.25}",
        ),
        _round_pattern,
        _half_up,
    ),
    planted(
        "bounds behind a product",
        "inside",
        text(
            "float[4,16] x",
            "float[] y",
            "u = MatMul(x, weights) v = Tanh(u) s = Mul(v, five) w = Clip(s, low, high) y = Neg(w)",
            initializers=f"float[16,8] weights = {{{', '.join(f'{n:.4f}' for n in _random.normal(size=128) / 4)}}}, "
            "float five = {5.0}, float low = {-4.9999}, float high = {4.9999}",
        ),
        lambda self, op, v, low, high: clip(op, v, low, high),
        lambda self, op, v, low, high: no_clip(op, v, low, high),
    ),
]
