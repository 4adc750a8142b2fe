from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.tools import model_of, operators

WEIGHTS = {"w": (1, 20, 6), "r": (1, 20, 5), "b": (1, 40)}


def lstm(states: str, before: str = "") -> ir.Model:
    graph = f"""g (float[7,N,6] x) => (float[7,1,N,5] y) {{
        s = Shape(x) n = Gather<axis=0>(s, at) one = Unsqueeze(n, ax) sh = Concat<axis=0>(first, one, hidden)
        {before} y = LSTM<hidden_size=5>(x, w, r, b, {states})
    }}"""
    model = model_of(graph)
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in WEIGHTS.items()}
    arrays |= {"at": np.array(1), "ax": np.array([0]), "first": np.array([1]), "hidden": np.array([5])}
    arrays["zeros"] = np.zeros((1, 1, 5), np.float32)
    for name, array in arrays.items():
        for node in model.graph:
            for index, value in enumerate(node.inputs):
                if value is not None and value.name == name:
                    held = model.graph.initializers.get(name) or ir.Value(
                        name=name, const_value=ir.Tensor(array, name=name)
                    )
                    model.graph.initializers.setdefault(name, held)
                    node.replace_input_with(index, held)
    return model


def inputs_of(model: ir.Model) -> list[str | None]:
    node = next(node for node in model.graph if node.op_type == "LSTM")
    return [None if value is None else value.name for value in node.inputs]


@pytest.mark.parametrize(
    ("states", "left"),
    [(", zero, zero", [None, None]), (", zero, full", [None, "full"]), (", full, zero", ["full", None])],
)
def test_states_made_of_zeros_go(states, left):
    model = lstm(states, "zero = ConstantOfShape(sh) full = ConstantOfShape<value=float[1] {0.5}>(sh)")
    result = onnx_passes.apply(model, "eliminate-zero-state")
    assert inputs_of(result.model)[5:] == left
    assert result.record.level in ("bits:sampled", "bits:proved-here", "bits:proved")


def test_shape_arithmetic_for_them_goes_too():
    result = onnx_passes.apply(lstm(", z, z", "z = ConstantOfShape(sh)"), "eliminate-zero-state, remove-unused")
    assert operators(result.model.graph) == ["LSTM"]


def test_negative_zeros_and_other_values_stay():
    model = lstm(", z, z", "z = ConstantOfShape<value=float[1] {-0.0}>(sh)")
    assert not onnx_passes.apply(model, "eliminate-zero-state").modified


def test_inputs_of_the_model_stay():
    model = lstm(", h", "h = ConstantOfShape<value=float[1] {1.0}>(sh)")
    assert not onnx_passes.apply(model, "eliminate-zero-state").modified
