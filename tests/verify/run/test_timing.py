from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.run.execute import ExecutionError
from onnx_passes.verify.run.timing import TimedModel, time_in_turns

HEAD = '<ir_version: 9, opset_import: ["" : 17]>'


def products(count: int) -> ir.Model:
    """Multiply a matrix with a weight that ONNX Runtime is handed where it lies, so many times."""
    nodes = " ".join(f"y{i + 1} = MatMul (y{i}, w)" for i in range(count))
    model = ir.from_onnx_text(f"{HEAD} g (float[64,64] y0) => (float[64,64] y{count}) {{ {nodes} }}")
    weight = ir.Value(name="w", const_value=ir.tensor(np.eye(64, dtype=np.float32)))
    for node in model.graph:
        node.replace_input_with(1, weight)
    model.graph.register_initializer(weight)
    return model


SAMPLE = {"y0": np.ones((64, 64), np.float32)}


def test_what_computes_more_takes_longer():
    many, few = time_in_turns([TimedModel(products(16), SAMPLE), TimedModel(products(1), SAMPLE)], 0.02)
    assert many.least > 2 * few.least
    assert 0 < few.least <= few.median
    assert many.runs == few.runs >= 5


def test_operators_are_those_that_onnx_runtime_executes():
    text = f"""{HEAD} g (float[8,8] x) => (float[8,8] y) <float one = {{1}}> {{
        a = Identity (x) b = Relu (a) c = Identity (b) y = Exp (c) }}"""
    shares = TimedModel(ir.from_onnx_text(text), {"x": np.ones((8, 8), np.float32)}).operators()
    assert set(shares) == {"Relu", "Exp"}
    assert sum(shares.values()) == pytest.approx(1)


def test_model_that_may_crash_is_timed_apart():
    text = f"{HEAD} g (int64[3] x, int64[3] d) => (int64[3] y) {{ y = Div (x, d) }}"
    model = ir.from_onnx_text(text)
    fine = {"x": np.array([4, 5, 6]), "d": np.array([1, 2, 3])}
    timed = TimedModel(model, fine)
    assert timed.run() > 0
    assert not timed.operators()
    with pytest.raises(ExecutionError, match=r"by zero|crashed"):
        TimedModel(model, {**fine, "d": np.array([0, 0, 0])}).run()


def test_refuses_what_onnx_runtime_does_not_know():
    model = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["" : 17, "my" : 1]> g (float[1] x) => (float[1] y) { y = my.Op (x) }'
    )
    with pytest.raises(ExecutionError, match="Op"):
        TimedModel(model, {"x": np.ones(1, np.float32)})
