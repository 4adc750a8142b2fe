from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings

from tests.analysis.ranges.random_networks import Drawn, networks
from tests.analysis.ranges.soundness import inferred, require_sound


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(networks())
def test_no_value_of_a_random_network_leaves_its_range_or_its_grid(drawn: Drawn) -> None:
    model, seeds, samples = drawn
    require_sound(inferred(model), seeds, samples)


SHIFTED = "s = Mul (x, scale)  v = Add (s, shift)"
"""Values on a grid with a bias that is no multiple of the scale."""


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("y = AveragePool <kernel_shape = [2, 2]> (v)", "1,2,3,3"),
        ("y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (v)", "1,2,2,2"),
        ("y = GlobalAveragePool (v)", "1,2,1,1"),
        ("y = ReduceMean <keepdims = 0> (v, axes)", "1,2,4"),
        ("y = ReduceSum <keepdims = 1> (v, axes)", "1,2,4,1"),
        ("y = Conv <kernel_shape = [2, 2]> (v, w)", "1,1,3,3"),
        ("y = Concat <axis = 1> (v, v)", "1,4,4,4"),
        ("y = Concat <axis = 1> (v, x)", "1,4,4,4"),
        ("y = Neg (v)", "1,2,4,4"),
        ("y = Sub (s, v)", "1,2,4,4"),
        ("y = Max (v, v)", "1,2,4,4"),
        ("y = MatMul (v, m)", "1,2,4,2"),
        ('y = Resize <mode = "nearest"> (v, , r)', "1,2,8,8"),
        ("y = Slice (v, one, end, one)", "1,1,4,4"),
        ("y = BatchNormalization (v, p, p, p, q)", "1,2,4,4"),
    ],
)
def test_biases_are_followed(body: str, shape: str) -> None:
    model = inferred(
        ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": 18]> g (float[1,2,4,4] x) => (float[{shape}] y)
        <float[1,2,1,1] scale = {{0.3, -0.7}}, float[1,2,1,1] shift = {{0.1, 0.2}}, int64[1] axes = {{3}},
         float[1,2,2,2] w = {{1, -2, 0, 3, 0, 0, 0, 0}}, float[4,2] m = {{1, -2, 0, 3, 5, -1, 2, 2}},
         float[4] r = {{1, 1, 2, 2}}, int64[1] one = {{1}}, int64[1] end = {{2}},
         float[2] p = {{-1.5, 0.5}}, float[2] q = {{0.5, 2}}> {{ {SHIFTED} {body} }}""")
    )
    random = np.random.default_rng(0)
    samples = [{"x": random.choice([-8, -1, 0, 3, 7], (1, 2, 4, 4)).astype(np.float32)} for _ in range(4)]
    checked = require_sound(model, {"x": "INT4"}, samples)
    # The convolution adds up channels of different scales, which are no multiples of each other.
    assert checked["grid"] == (2 if "Conv " in body else 3) * len(samples)


@pytest.mark.parametrize("size", [1, 2])
def test_a_normalization_of_large_numbers_may_miss_its_bias(size: int) -> None:
    model = inferred(
        ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": 18]> g (float[1,3,{size}] x) => (float[1,3,{size}] y)
        <float[3] scale = {{0.3, -1.5, 2}}, float[3] bias = {{0.3, 0.6, 0.4}}>
        {{ y = InstanceNormalization (x, scale, bias) }}""")
    )
    random = np.random.default_rng(0)
    samples = [{"x": random.uniform(-3e7, 3e7, (1, 3, 1)).repeat(size, 2).astype(np.float32)} for _ in range(20)]
    require_sound(model, {"x": (-3e7, 3e7)}, samples)
