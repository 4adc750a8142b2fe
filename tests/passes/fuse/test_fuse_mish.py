from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from tests.passes.fuse.tools import outcome, reasons
from tests.passes.tools import model_of, operators


def mish(inner: str, constants: str = "float one = {1}", x: str = "float[2,3]") -> str:
    return f"g ({x} x) => ({x} z) <{constants}> {{ {inner} }}"


def test_softplus():
    # Where the exponential overflows, results differ: that is what the flag of the pass says.
    model = model_of(mish("e = Exp (x) a = Add (one, e) z = Log (a)"))
    inputs = [{"x": np.linspace(-80, 80, 6, dtype=np.float32).reshape(2, 3)}]
    result = onnx_passes.apply(model, "fuse-softplus", inputs=inputs)
    assert operators(result.model.graph) == ["Softplus"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (mish("e = Exp (x) a = Add (one, e) z = Log (a)", "float one = {2}"), "not one"),
        (mish("e = Exp (x) a = Add (one, e) z = Log (a)", "double one = {1}", "double[2]"), "single or half"),
    ],
)
def test_softplus_refuses(text: str, reason: str):
    assert reason in reasons("fuse-softplus", text)


@pytest.mark.parametrize("inner", ["s = Softplus (x)", "e = Exp (x) a = Add (e, one) s = Log (a)"])
def test_mish(inner: str):
    assert outcome("fuse-mish", mish(f"{inner} t = Tanh (s) z = Mul (t, x)")) == ["Mish"]


@pytest.mark.parametrize(
    ("constants", "opset", "reason"), [("float one = {1}", 17, "opset 18"), ("float one = {2}", 18, "not one")]
)
def test_mish_refuses(constants: str, opset: int, reason: str):
    text = mish("e = Exp (x) a = Add (e, one) s = Log (a) t = Tanh (s) z = Mul (t, x)", constants)
    assert reason in reasons("fuse-mish", text, opset=opset)
