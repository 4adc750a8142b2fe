"""Fragments of floats between quantizers: levels may flip behind them as far as their own rounding goes, no further."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes, run_model
from onnx_passes.core.compose import ComposePass
from onnx_passes.verify.failure import PostconditionError, VerificationError

HEAD = '<ir_version: 8, opset_import: ["": 17, "qonnx.custom_op.general": 1]>'
QUANT = 'qonnx.custom_op.general.Quant <signed=1, narrow=0, rounding_mode="ROUND">'
MIXER = f"""{HEAD}
g (float[1,6,8] x) => (float[1,6,4] y)
<float z = {{0}}, float eight = {{8}}, float four = {{4}}, float twelve = {{12}}, float s = {{0.03}},
 float t = {{0.01}}, float u = {{0.002}}, float o = {{0.003}}, float v = {{0.1}}, GAIN, BIAS, WEIGHTS, HEADS,
 float[6] shift = {{0.01, -0.02, 0.5, -0.4, 0.3, 0.25}}>
{{
    a = {QUANT} (x, s, z, eight)
    n = LayerNormalization (a, gain, bias)
    p = Transpose <perm = [0, 2, 1]> (n)
    q = {QUANT} (p, t, z, twelve)
    w = {QUANT} (weights, v, z, four)
    m = MatMul (q, w)
    h = Add (m, shift)
    k = {QUANT} (h, u, z, twelve)
    r = Transpose <perm = [0, 2, 1]> (k)
    e = Add (a, r)
    f = {QUANT} (e, o, z, twelve)
    i = {QUANT} (heads, v, z, four)
    y = MatMul (f, i)
}}
"""


def mixer() -> ir.Model:
    """A quantized network with LayerNorm, whose result is added to that of a quantizer that another branch reads."""
    rng = np.random.default_rng(0)
    text = MIXER
    for word, name, shape in (
        ("GAIN", "gain", (8,)),
        ("BIAS", "bias", (8,)),
        ("WEIGHTS", "weights", (6, 6)),
        ("HEADS", "heads", (8, 4)),
    ):
        array = rng.normal(size=shape) * (0.3 if word in ("BIAS", "WEIGHTS", "HEADS") else 1) + (word == "GAIN")
        numbers = ", ".join(str(float(np.float32(number))) for number in array.reshape(-1))
        text = text.replace(word, f"float[{','.join(map(str, shape))}] {name} = {{{numbers}}}", 1)
    return ir.from_onnx_text(text)


def at_ties(seed: int) -> list[dict[str, np.ndarray]]:
    """Inputs whose quotients are ties of floats; exact ones lie just beside them."""
    rng = np.random.default_rng(seed)
    return [{"x": ((rng.integers(-100, 100, (1, 6, 8)) + 0.5) * np.float32(0.03)).astype(np.float32)} for _ in range(3)]


@pytest.mark.parametrize(("flow", "seed"), [("streamline", 0), ("finn", 1)])
def test_networks_with_layer_norm_are_accepted(flow: str, seed: int):
    result = apply(mixer(), flow, inputs=at_ties(seed))
    notes = "\n".join(note for step in result.record.leaves() for note in step.notes)
    assert "levels flipped at ties" in notes
    # Where scales are merged, floats flip levels of their own before thresholds are searched.
    found = re.findall(r"the new level is right at (\d+), the old one at (\d+)\)", notes)
    assert found
    assert sum(int(new) for new, _ in found) > 10 * sum(int(old) for _, old in found)


def rule(pattern, rewrite, check) -> Transformation:
    """A rule that claims a tolerance; it does not match what it puts in, whose constants have other names."""
    members = {"pattern": pattern, "rewrite": rewrite, "check": check}
    return passes.verify.tolerance(type("NearMiss", (Transformation, RewriteRulePass), members))()


def normalized(change) -> Transformation:
    return rule(
        lambda self, op, x, g, b: op.LayerNormalization(x, g, b),
        lambda self, op, x, g, b: op.LayerNormalization(x, *change(g.const_value.numpy(), b.const_value.numpy())),
        lambda self, op, x, g, b: g.name == "gain",
    )


def quantized(change, scale: str) -> Transformation:
    domain = "qonnx.custom_op.general"
    return rule(
        lambda self, op, x, s, z, b: op.Quant(x, s, z, b, _domain=domain),
        lambda self, op, x, s, z, b: op.Quant(
            change(op, x, s), s.const_value.numpy(), z, b, _domain=domain, signed=1, narrow=0
        ),
        lambda self, op, x, s, z, b: s.name == scale,
    )


NEAR_MISSES = {
    "a gain of 1 + 1e-3": normalized(lambda gain, bias: (gain * np.float32(1.001), bias)),
    "no bias": normalized(lambda gain, bias: (gain, np.zeros_like(bias))),
    "one level up": quantized(lambda op, x, s: op.Add(x, s), "t"),
    "half a level up": quantized(lambda op, x, s: op.Add(x, np.float32(0.005)), "t"),
    "a hundredth of a level up": quantized(lambda op, x, s: op.Add(x, np.float32(0.0003)), "s"),
    "a scale of 1 + 1e-3": quantized(lambda op, x, s: op.Mul(x, np.float32(1.001)), "u"),
}


@pytest.mark.parametrize("wrong", NEAR_MISSES)
def test_near_misses_are_refused_among_levels_that_may_flip(wrong: str):
    flow = type("Flow", (ComposePass,), {"passes": (NEAR_MISSES[wrong], "streamline"), "exhaustive": False})
    with pytest.raises((PostconditionError, VerificationError)):
        apply(mixer(), flow(), inputs=at_ties(0))


def on_edges(beside: float = 0.0) -> tuple[ir.Model, list[dict[str, np.ndarray]]]:
    """The network with biases that bring LayerNorm's first row to edges of levels, or beside by a part of its size."""
    model, inputs = mixer(), at_ties(0)[:1]
    bias = model.graph.initializers["bias"]
    bias.const_value = ir.tensor(np.zeros(8, np.float32), name="bias")
    shown = model.clone()
    shown.graph.outputs.append(next(v for node in shown.graph for v in node.outputs if v.name == "n"))
    row = run_model(shown, inputs[0])["n"][0, 0].astype(np.float64)
    edges = (np.round(row / 0.01) + 0.5) * 0.01
    bias.const_value = ir.tensor((edges - row - beside * row).astype(np.float32), name="bias")
    return model, inputs


def by_hand(self, op, x, g, b):
    apart = op.Sub(x, op.ReduceMean(x, axes=[-1]))
    square = op.ReduceMean(op.Mul(apart, apart), axes=[-1])
    return op.Add(op.Mul(op.Div(apart, op.Sqrt(op.Add(square, np.float32(1e-5)))), g), b)


def test_levels_on_edges_may_flip_by_as_much_as_a_norm_is_rounded():
    norm = rule(lambda self, op, x, g, b: op.LayerNormalization(x, g, b), by_hand, lambda self, op, x, g, b: True)
    model, inputs = on_edges()
    result = apply(model, norm, inputs=inputs)
    assert "levels flipped at ties" in "\n".join(note for step in result.record.leaves() for note in step.notes)


@pytest.mark.parametrize("part", [5e-5, 1e-5])
def test_levels_beside_edges_must_not_flip_even_where_the_tolerance_is_kept(part: float):
    model, inputs = on_edges(beside=part / 2)
    with pytest.raises((PostconditionError, VerificationError)):
        apply(model, normalized(lambda gain, bias: (gain * np.float32(1 + part), bias)), inputs=inputs)


JOINED = f"""{HEAD}
g (float[1,2,4,4] x) => (float[1,2,4,4] y)
<float z = {{0}}, float s = {{0.25}}, float third = {{0.33333334}}, float three = {{3}}, float four = {{4}}>
{{
    a = {QUANT} (x, s, z, three)
    b = {QUANT.replace("ROUND", "CEIL")} (a, s, z, three)
    c = Add (a, b)
    y = {QUANT} (c, third, z, four)
}}
"""
# Twice a quarter by a third is a tie of floats; a third is a little more in floats, so that it is none.
QUARTERS = [{"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 2, 4, 4)}]


def test_levels_behind_a_quantizer_that_is_merged_with_them_may_flip():
    result = apply(ir.from_onnx_text(JOINED), "streamline", inputs=QUARTERS)
    notes = "\n".join(note for step in result.record.leaves() for note in step.notes)
    assert "levels flipped at ties" in notes
    assert [node.op_type for node in result.model.graph].count("MultiThreshold") == 2


def test_levels_behind_a_quantizer_are_refused_where_no_tie_is():
    wrong = rule(
        lambda self, op, a, s, z, n, b: op.Add(a, op.Quant(a, s, z, n, _domain="qonnx.custom_op.general")),
        lambda self, op, a, s, z, n, b: op.Mul(op.Add(a, a), np.float32(1.001)),
        lambda self, op, a, s, z, n, b: True,
    )
    with pytest.raises((PostconditionError, VerificationError)):
        apply(ir.from_onnx_text(JOINED), wrong, inputs=QUARTERS)
