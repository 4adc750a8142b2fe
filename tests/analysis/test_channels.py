"""Channels that never change, or that nobody looks at, are found."""

from __future__ import annotations

import onnx_passes
from onnx_passes.analysis.channels import TensorRange
from tests.passes.streamline.tools import DOMAIN
from tests.passes.tools import model_of


def ranges_of(text: str, **inputs: tuple[float, float]) -> dict[str, TensorRange]:
    found = onnx_passes.inspect(model_of(text, domains=f'"{DOMAIN}" : 1'), ranges=inputs or True).ranges
    assert found is not None
    return {each.name: each for each in found}


MATMUL = f"""
g (float[N,2] x) => (float[N,2] y)
<float[1,1] t = {{0.5}}, float[2,3] w = {{1, 0, -2, 1, 0, 1}}, float[3,1] u = {{1, -1, 3}},
 float[3,2] v = {{1, 2, 0, 0, 0, 0}}>
{{ q = {DOMAIN}.MultiThreshold(x, t) a = MatMul(q, w) b = {DOMAIN}.MultiThreshold(a, u) y = MatMul(b, v) }}
"""


def test_stuck_and_unread_channels_of_matrices():
    found = ranges_of(MATMUL)
    assert (found["a"].stuck, found["a"].values) == ((1,), (0.0,))
    # The second channel is always above its threshold, the third never.
    assert (found["b"].stuck, found["b"].values) == ((1, 2), (1.0, 0.0))
    assert (found["b"].unread, found["q"].unread) == ((1, 2), ())
    assert (found["a"].channels, found["a"].scale, found["a"].low, found["a"].high) == (3, 1.0, -2, 2)


def test_channels_of_images_are_axis_one():
    text = f"""
    g (float[1,1,4,4] x) => (float[1,2,4,4] y) <float[1,1] t = {{0.5}}, float[3,1,1,1] w = {{2, 0, 1}},
       float[2,3,1,1] v = {{1, 0, 0, 2, 0, 0}}>
    {{ q = {DOMAIN}.MultiThreshold(x, t) a = Conv(q, w) m = MaxPool<kernel_shape=[1,1]>(a) y = Conv(m, v) }}
    """
    found = ranges_of(text)
    assert (found["m"].channels, found["m"].stuck, found["m"].unread) == (3, (1,), (1, 2))


def test_what_comes_in_may_be_said():
    found = ranges_of("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }", x=(-3.0, -1.0))
    assert (found["x"].low, found["y"].stuck) == (-3.0, (0, 1))
    assert not ranges_of("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }")
