"""Which levels a node may choose if what it reads moves a little, and what becomes of a model that is given levels."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import api
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.ties.decisions import (
    LevelChoices,
    decide_alike,
    decides,
    decisions_of,
    last_places,
    not_below_last_places,
    values_behind,
)
from onnx_passes.verify.ties.exact import Forced

Q = "qonnx.custom_op.general"
HEAD = f'<ir_version: 10, opset_import: ["": 20, "{Q}" : 1]> g'
CONSTANTS = "float one = {1}, float zero = {0}, float bits = {4}, float s = {0.5}, float two = {2}, float t = {0.25}"


def model_of(body: str, signature: str = "float[2,40] x", outputs: str = "y") -> ir.Model:
    text = f"{HEAD} ({signature}) => ({outputs}) <{CONSTANTS}> {{ {body} }}"
    return api.apply(ir.from_onnx_text(text), "shape-inference", verify=False).model


DECIDING = {
    "quant": f"y = {Q}.Quant <signed = 1> (x, s, zero, bits)",
    "floor": f'y = {Q}.Quant <signed = 1, rounding_mode = "FLOOR"> (x, s, zero, bits)',
    "bipolar": f"y = {Q}.BipolarQuant (x, s)",
    "linear": "y = QuantizeLinear(x, s)",
    "round": "y = Round(x)",
    "cast": "y = Cast <to = 6> (x)",
}


@pytest.mark.parametrize("name", DECIDING)
def test_levels_around_are_those_at_the_ends_of_what_may_come(name: str):
    model = model_of(DECIDING[name])
    (node,) = decisions_of(model.graph)
    rng = np.random.default_rng(0)
    x = (rng.integers(-12, 13, (2, 40)) / 4).astype(np.float32)
    bound = rng.choice([0.0, 1e-3, 0.3, 0.6], (2, 40))
    executor = Executor()
    ready = executor.prepare(model_of(DECIDING[name]), engine="onnxruntime")
    choices = LevelChoices(model, [node], {"x": x}, executor)
    low, high = choices.around({"x": x}, {"x": bound})[node]
    seen = [
        ready.run({"x": (x.astype(np.float64) + part * bound).astype(np.float32)})["y"].astype(np.float64)
        for part in np.linspace(-1, 1, 9)
    ]
    assert (low <= np.min(seen, axis=0)).all()
    assert (high >= np.max(seen, axis=0)).all()
    assert (low == seen[0]).all()
    assert (high == seen[-1]).all()
    exact = choices.around({"x": x}, {})[node]
    assert (exact[0] == seen[4]).all()
    assert (exact[1] == seen[4]).all()


@pytest.mark.parametrize("operator", ["Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_a_comparison_moves_both_sides_towards_each_other_and_apart(operator: str):
    signature = "float[2,40] x, float[2,40] z"
    model = model_of(f"y = {operator}(x, z)", signature)
    node = model.graph[0]
    assert decides(node)
    rng = np.random.default_rng(1)
    x, z = (rng.integers(-3, 4, (2, 40)).astype(np.float32) for _ in range(2))
    choices = LevelChoices(model, [node], {"x": x, "z": z}, Executor())
    low, high = choices.around({"x": x, "z": z}, {"x": np.full(x.shape, 0.6), "z": np.full(x.shape, 0.6)})[node]
    compare = {"Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal}
    ends = [compare[operator](x + a, z - a) for a in (np.float32(0.6), np.float32(-0.6))]
    assert (low == np.minimum(*ends)).all()
    assert (high == np.maximum(*ends)).all()
    alone = choices.around({"x": x, "z": z}, {"x": np.full(x.shape, 0.6)})[node]
    ends = [compare[operator](x + a, z) for a in (np.float32(0.6), np.float32(-0.6))]
    assert (alone[0] == np.minimum(*ends)).all()
    assert (alone[1] == np.maximum(*ends)).all()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("a = Mul(x, s) y = Round(a)", ["Round"]),
        ("a = Mul(x, s) y = Tanh(a)", []),
        ("y = Cast <to = 7> (x)", ["Cast"]),
        ("y = Cast <to = 11> (x)", []),
        ("c = Round(s) y = Mul(x, c)", []),
        (f"w = {Q}.Quant <signed = 1> (s, one, zero, bits) y = Mul(x, w)", ["Quant"]),
        ("a = Cast <to = 7> (x) y = Cast <to = 6> (a)", ["Cast"]),
    ],
)
def test_decisions_are_of_what_is_computed_from_inputs(body: str, found: list[str]):
    assert [node.op_type for node in decisions_of(model_of(body).graph)] == found


QUANT = f"y = {Q}.Quant <signed = 1, narrow = 0> (x, s, zero, bits)"


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (QUANT, True),
        (QUANT.replace("narrow = 0", "narrow = 1"), False),
        (QUANT.replace("signed = 1", "signed = 0"), False),
        (QUANT.replace("(x, s,", "(x, t,"), False),
        (QUANT.replace("zero, bits", "one, bits"), False),
        (QUANT.replace("zero, bits", "zero, two"), False),
        ("y = Round(x)", False),
        (QUANT.replace("(x, s,", "(a, s,").replace("y =", "a = Neg(x) y ="), True),
    ],
)
def test_nodes_decide_alike_if_all_but_what_they_decide_by_is_the_same(other: str, alike: bool):
    one, two = model_of(QUANT).graph, model_of(other).graph
    assert decide_alike(one[-1], two[-1]) == alike
    assert decide_alike(two[-1], one[-1]) == alike


def test_values_behind_a_level_are_computed_from_it_and_constants():
    model = model_of("a = Round(x) c = Mul(a, s) d = Add(c, one) e = Add(d, x) y = Neg(e)")
    assert [value.name for value in values_behind(model.graph[0])] == ["a", "c", "d"]
    model = model_of("a = Round(x) c = Mul(a, s) d = Round(c) y = Neg(d)")
    assert [value.name for value in values_behind(model.graph[0])] == ["a", "c"]
    model = model_of("a = Round(x) c = Mul(a, s) y = Add(a, c)")
    assert [value.name for value in values_behind(model.graph[0])] == ["a"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_last_places_are_a_few_units(dtype: type[np.floating]):
    array = np.array([1.0, -3.0, 1024.0], dtype)
    units = np.spacing(np.abs(array)).astype(np.float64)
    found = last_places({"x": array})["x"]
    assert ((found >= 2 * units) & (found <= 8 * units)).all()
    bounds = {"x": np.array([0.0, 1e-30, 1e9])}
    least = not_below_last_places({"x": array}, bounds)["x"]
    assert (least == np.maximum(bounds["x"], 2 * units)).all()
    assert not not_below_last_places({"x": array}, {"x": np.zeros(3)})["x"].any()


def test_given_levels_are_what_all_that_follows_reads():
    model = model_of("a = Round(x) c = Mul(a, two) d = Round(c) y = Add(d, a)", outputs="y")
    a, d = model.graph[0].outputs[0], model.graph[2].outputs[0]
    x = np.linspace(-3, 3, 80, dtype=np.float32).reshape(2, 40)
    run = Executor().prepare(model_of("a = Round(x) c = Mul(a, two) d = Round(c) y = Add(d, a)"), also=()).run({"x": x})
    levels = {"a": np.full(x.shape, 7, np.float32), "d": np.full(x.shape, 5, np.float32)}
    outputs = list(model.graph.outputs)
    forced = Forced(model, [a], levels, [*outputs, d], Executor())
    found = forced.run({"x": x}, levels)
    assert (found["y"] == 7 * 2 + 7).all()
    both = Forced(model, [a, d], levels, outputs, Executor()).run({"x": x}, levels)
    assert (both["y"] == 5 + 7).all()
    assert (run["y"] == 3 * np.rint(x)).all()
    assert forced.levels_before(model.graph[2]) == ["a"]
