"""Models of float16 are executed so that equality means something: every result is rounded."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
DEAD = f"""{HEAD}
g (float16[4,4] x, float16[4,3] w) => (float16[4,3] y) <float16[1] c = {{17664}}>
{{
    a = Mul (c, x)
    DEAD
    y = MatMul (a, w)
}}
"""


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(4, 4)).astype(np.float16), "w": rng.normal(size=(4, 3)).astype(np.float16)}


def test_a_dead_node_does_not_change_results():
    with_it, without = (
        Executor().prepare(ir.from_onnx_text(DEAD.replace("DEAD", text))).run(data())["y"]
        for text in ("s = Shape (a)", "")
    )
    np.testing.assert_array_equal(with_it, without)


def test_every_result_is_rounded_as_numpy_rounds_it():
    text = (
        f"{HEAD} g (float16[64] x, float16[64] w) => (float16[64] y) {{ a = Mul (x, w) b = Add (a, x) y = Mul (b, w) }}"
    )
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=64).astype(np.float16) for _ in range(2))
    found = Executor().prepare(ir.from_onnx_text(text)).run({"x": x, "w": w})["y"]
    np.testing.assert_array_equal(found, (x * w + x) * w)


def test_removing_a_dead_node_keeps_its_promise_of_equality():
    result = apply(ir.from_onnx_text(DEAD.replace("DEAD", "s = Shape (a)")), "remove-unused-nodes", inputs=[data()])
    assert result.steps[0].evidence.level == "bits:sampled"


def test_what_was_inferred_before_does_not_change_results():
    bits = np.array([0.1, 0.2, 0.0, 4.0], np.float16).view(np.int16)
    given = ", ".join(f"float16 {name} = {{{number}}}" for name, number in zip("stzb", bits, strict=True))
    head = HEAD.replace("20]", '20, "qonnx.custom_op.general": 1]')
    quant = 'qonnx.custom_op.general.Quant <narrow = 0, signed = 1, rounding_mode = "ROUND">'
    body = f"a = {quant} (x, s, z, b) r = Relu (a) y = {quant} (r, t, z, b)"
    model = ir.from_onnx_text(f"{head} g (float16[64] x) => (float16[64] y) <{given}> {{ {body} }}")
    assert model.graph[0].outputs[0].dtype is None
    result = apply(model, "shape-inference", inputs=[{"x": (np.arange(64) / 64 - 0.3).astype(np.float16)}])
    assert result.modified
    assert result.record.level == "unchanged"


@pytest.mark.parametrize(("dtype", "rtol"), [("float16", 8 * 2.0**-10), ("float32", 1e-4), ("float64", 1e-4)])
def test_default_tolerance_follows_the_element_type(dtype: str, rtol: float):
    assert DEFAULT.of(np.dtype(dtype)).rtol == rtol
    assert Limits(1e-6, 1e-6).of(np.dtype(dtype)) == Limits(1e-6, 1e-6)
