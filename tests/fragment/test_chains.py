"""Values at decision boundaries: ONNX Runtime computes another level, or another branch, right beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.fragment.chains import Goal, NoBoundaryError, Solver, _from_order, _to_order, chain_of
from onnx_passes.ops.facts.allowed_values import AllowedValues, broadcasts
from onnx_passes.ops.facts.critical_values import critical_values
from onnx_passes.verify.run.execute import Executor
from tests.fragment.test_fragment import run

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
CHAINS = {
    "rounding": "a = Mul(x, k) b = Add(a, k) y = Round(b)",
    "falling": "n = Neg(x) a = Mul(n, k) y = Floor(a)",
    "moved in between": "s = Constant<value_ints = [8, 8]>() r = Reshape(x, s) a = Div(r, k) y = Ceil(a)",
    "by channel": "a = Mul(x, w) y = Round(a)",
    "clipped": "a = Sub(x, k) y = Sign(a)",
    "function": "t = Tanh(x) a = Mul(t, k) b = Mul(a, k) y = Round(b)",
}


def model(body: str) -> ir.Model:
    constants = "float k = {2.7}, float[1,4,1] w = {0.3, 1.0, -2.0, 7.5}"
    return ir.from_onnx_text(f"{HEAD} g (float[4,4,4] x) => (y) <{constants}> {{ {body} }}")


def beside(values: np.ndarray) -> list[np.ndarray]:
    """Return values with their neighbours, three on either side."""
    found = [values]
    for direction in (np.float32(-np.inf), np.float32(np.inf)):
        at = values
        for _ in range(3):
            with np.errstate(over="ignore"):
                at = np.nextafter(at, direction)
            found.append(at)
    return found


@pytest.mark.parametrize("name", CHAINS)
def test_decision_boundaries_are_crossed_beside_what_is_found(name: str):
    made = model(CHAINS[name])
    chain = chain_of(made, made.graph.inputs[0])
    assert chain is not None
    solver = Solver(chain, (4, 4, 4), Executor(), seed=1)
    proto, source = ir.to_proto(chain.model), str(chain.model.graph.inputs[0].name)
    amount = crossed = 0
    for number in range(solver.rounds):
        values, found = solver.solve(number)
        runs = [{source: x} | run(proto, {source: x}) for x in beside(values)]
        crosses = np.zeros(values.shape, bool)
        for target in chain.targets:
            made_there = [each[str(chain.model.graph.outputs[target.value].name)] for each in runs]
            below = np.stack([array < target.place.astype(np.float32) for array in made_there])
            crosses |= below.any(axis=0) & ~below.all(axis=0)
        amount += int(found.sum())
        crossed += int((crosses & found).sum())
    # Of five places where a boundary is looked for, three are at it and two well beyond.
    assert amount
    assert crossed >= 0.58 * amount


def test_levels_change_where_a_quantizer_rounds():
    made = model(CHAINS["rounding"])
    chain = chain_of(made, made.graph.inputs[0])
    assert chain is not None
    halves = [t for t in chain.targets if t.place.size == 1 and float(t.place) % 1 == 0.5 and abs(float(t.place)) < 20]
    assert len(halves) >= 20
    solver = Solver(replace(chain, targets=halves), (4, 4, 4), Executor(), seed=1)
    changed = amount = 0
    for number in range(solver.rounds):
        values, found = solver.solve(number)
        levels = np.stack([run(ir.to_proto(made), {"x": x})["y"] for x in beside(values)])
        changed += int((np.ptp(levels, axis=0) > 0)[found].sum())
        amount += int(found.sum())
    assert changed >= 0.58 * amount


def test_elements_that_differ_by_channel_get_boundaries_of_their_own():
    made = model(CHAINS["by channel"])
    chain = chain_of(made, made.graph.inputs[0])
    assert chain is not None
    assert (1, 4, 1) in chain.sizes


def test_there_may_be_no_boundary():
    made = model("y = Neg(x)")
    assert chain_of(made, made.graph.inputs[0]) is None
    made = model(CHAINS["rounding"])
    chain = chain_of(made, made.graph.inputs[0])
    assert chain is not None
    chain.targets.clear()
    with pytest.raises(NoBoundaryError):
        Solver(chain, (4, 4, 4), Executor(), seed=1)


def critical(body: str, index: int = 0, rank: int = 3) -> set[float]:
    """Return the numbers at which the first node of a text changes what it does."""
    constants = "float k = {2.7}, float s = {0.5}, int8 z = {3}"
    made = ir.from_onnx_text(f"{HEAD} g (float[4,4,4] x, int32[4] i) => (y) <{constants}> {{ {body} }}")
    made = ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(made)))
    return {float(number) for place in critical_values(made.graph[0], index, rank) for number in place.reshape(-1)}


def test_casts_to_integers_round_and_casts_of_integers_do_not():
    assert {0.5, 1.0, -2.5} <= critical("y = Cast<to = 6>(x)")
    assert not critical("y = Cast<to = 1>(x)")
    assert not critical("y = Cast<to = 7>(i)")


def test_quantizers_have_ties_at_their_ends_and_around_zero():
    found = critical("y = QuantizeLinear(x, s, z)")
    # Levels are those from -128 to 127, of which 3 is zero, half a unit apart.
    assert {(127 - 3) * 0.5, (127.5 - 3) * 0.5, (-128.5 - 3) * 0.5, (0.5 - 3) * 0.5} <= found
    assert not critical("y = QuantizeLinear(x, s, z)", index=1)


def test_bounds_and_what_is_compared_with_are_critical():
    assert 2.7 in {round(number, 6) for number in critical("y = Clip(x, k)")}
    assert 2.7 in {round(number, 6) for number in critical("y = Less(x, k)")}
    assert critical("y = Add(x, k)") == {0.0}
    assert critical("y = Relu(x)") == {0.0}
    assert not critical("y = Relu(x)", index=1)


def test_signs_are_told_apart_at_zero_and_texts_nowhere():
    text = "y = qonnx.custom_op.general.BipolarQuant(x, s)"
    signs = ir.from_onnx_text(f"{HEAD} g (float[4] x) => (float[4] y) <float s = {{0.5}}> {{ {text} }}")
    assert [float(place) for place in critical_values(signs.graph[0], 0, 1)] == [0.0]
    made = ir.from_onnx_text(f"{HEAD} g (string[4] x) => (bool[4] y) {{ y = Equal(x, word) }}")
    word = ir.Value(name="word", const_value=ir.StringTensor([b"a"], shape=ir.Shape([1])), shape=ir.Shape([1]))
    word.type = ir.TensorType(ir.DataType.STRING)
    made.graph.initializers.add(word)
    made.graph[0].replace_input_with(1, word)
    assert critical_values(made.graph[0], 0, 1) == []


@pytest.mark.parametrize(("scale", "zero"), [(np.inf, 0), (np.nan, 0), (1, np.inf), (1, np.nan), (1, 0)])
def test_grids_of_no_numbers_are_no_grids(scale: float, zero: float):
    grid = AllowedValues(-8, 7, np.array(scale), np.array(zero))
    assert broadcasts(grid, (2, 3)) == bool(np.isfinite(scale) and np.isfinite(zero))


def test_integers_that_are_rounded_have_no_boundary():
    made = ir.from_onnx_text(f"{HEAD} g (int32[4] x) => (y) {{ y = Cast<to = 6>(x) }}")
    assert chain_of(made, made.graph.inputs[0]) is None


def test_critical_values_of_a_channel_fit_shapes_with_that_channel_alone():
    made = model("a = Add(x, w) y = PRelu(a, w)")
    chain = chain_of(made, made.graph.inputs[0])
    assert chain is not None
    chain.targets[:] = [Goal(0, np.ones((1, 4, 1)))]
    assert Solver(chain, (4, 4, 4), Executor(), seed=1).shape == (4, 4, 4)
    with pytest.raises(NoBoundaryError):
        Solver(chain, (4, 3, 4), Executor(), seed=1)


def test_integer_inputs_are_brought_to_boundaries():
    made = ir.from_onnx_text(f"{HEAD} g (int32[16] x) => (y) <int32 k = {{100}}> {{ a = Add(x, k) y = Less(a, k) }}")
    chain = chain_of(made, made.graph.inputs[0])
    assert chain is not None
    solver = Solver(chain, (16,), Executor(), seed=0)
    values, found = solver.solve(0)
    assert values.dtype == np.int32
    assert found.any()
    assert {-101, -100, -99, -1, 0, 1} & set(values[found].tolist())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_keep_their_order_and_neighbours(dtype: type):
    largest = np.finfo(dtype).max
    numbers = np.array([-largest, -2.5, -1, -np.finfo(dtype).tiny, -0.0, 0.0, 1e-3, 1, 1000, largest], dtype)
    order = _to_order(numbers)
    assert (np.diff(order) >= 0).all()
    assert np.array_equal(_from_order(order, np.dtype(dtype)), numbers)
    inner = numbers[1:-1]
    beside = _from_order(_to_order(inner) + 1, np.dtype(dtype))
    assert np.array_equal(beside, np.nextafter(inner, dtype(np.inf)))
