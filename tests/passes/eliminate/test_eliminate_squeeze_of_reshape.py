from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.constants import constant
from onnx_passes.passes.eliminate.reshape_laws import EliminateSqueezeOfReshape
from tests.passes.tools import apply, model_of, operators


def model(operator: str, target: str, axes: str, x: str = "N,6") -> ir.Model:
    text = f"""g (float[{x}] x) => (float y) {{
        s = Constant<value_ints=[{target}]>() a = Constant<value_ints=[{axes}]>()
        r = Reshape(x, s) y = {operator}(r, a)
    }}"""
    built = model_of(text)
    built.graph.outputs[0].shape = None
    return built


@pytest.mark.parametrize(
    ("operator", "target", "axes", "expected"),
    [
        ("Unsqueeze", "-1, 2, 3", "0", [1, -1, 2, 3]),
        ("Unsqueeze", "-1, 6", "-1, 1", [-1, 1, 6, 1]),
        ("Unsqueeze", "0, 6", "2", [0, 6, 1]),
        ("Squeeze", "-1, 1, 6", "1", [-1, 6]),
        ("Squeeze", "1, -1, 6, 1", "0, -1", [-1, 6]),
        ("Squeeze", "0, 1, 6", "1", [0, 6]),
    ],
)
def test_axes_go_into_the_target(operator, target, axes, expected):
    changed = model(operator, target, axes)
    assert apply(EliminateSqueezeOfReshape(), changed)
    assert "Squeeze" not in "".join(operators(changed.graph)).replace("Unsqueeze", "Squeeze")
    reshape = next(node for node in changed.graph if node.op_type == "Reshape")
    assert np.array_equal(constant(reshape.inputs[1]), expected)


@pytest.mark.parametrize(
    ("operator", "target", "axes"),
    [
        ("Unsqueeze", "0, 6", "0"),
        ("Squeeze", "1, -1, 6", "1"),
        ("Squeeze", "-1, 0, 1", "0"),
    ],
)
def test_what_would_change_the_result_is_refused(operator, target, axes):
    assert not apply(EliminateSqueezeOfReshape(), model(operator, target, axes, x="1,6"))


def test_reshape_that_others_read_is_left():
    text = """g (float[N,6] x) => (float[N,2,3] r, float[1,N,2,3] y) {
        s = Constant<value_ints=[-1, 2, 3]>() a = Constant<value_ints=[0]>() r = Reshape(x, s) y = Unsqueeze(r, a)
    }"""
    assert not apply(EliminateSqueezeOfReshape(), model_of(text))


@pytest.mark.parametrize(("target", "expected"), [("1, 4, 3", [4, 3]), ("1, 12, 1", [12]), ("1, -1, 1", None)])
def test_all_ones_go_where_no_axes_are_named(target, expected):
    changed = model_of(
        f"g (float[2,6] x) => (float y) {{ s = Constant<value_ints=[{target}]>() r = Reshape(x, s) y = Squeeze(r) }}"
    )
    changed.graph.outputs[0].shape = None
    assert apply(EliminateSqueezeOfReshape(), changed) == (expected is not None)
    if expected is not None:
        assert np.array_equal(constant(changed.graph[-1].inputs[1]), expected)
