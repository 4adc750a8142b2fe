"""Operators of QONNX and ours, against a plain computation."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.numbers.grid import Grid
from onnx_passes.numbers.range import Range
from tests.analysis.ranges.soundness import inferred

DOMAINS = """"": 18, "qonnx.custom_op.general": 1, "qonnx.custom_op.channels_last": 1, "onnx_passes": 1"""


def found_for(body: str, kind: str, shape: str, constants: str = "", **seeds: str) -> Range:
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: [{DOMAINS}]>
        g (float[{kind}] x) => (float[{shape}] y) <{constants}> {{ {body} }}"""
    )
    return ranges_of(inferred(model), seeds)[model.graph.outputs[0]]


def integer_grid(found: Range) -> Grid:
    assert found.integer_grid is not None
    return found.integer_grid


def test_im2col_repeats_channels_for_each_tap_and_adds_the_padding() -> None:
    found = found_for(
        """v = Add (x, c)
        y = qonnx.custom_op.general.Im2Col <kernel_size = [2, 1], stride = [1, 1], pad_amount = [1, 0, 0, 0],
            input_shape = "(1,3,3,2)"> (v)""",
        "1,3,3,2", "1,3,3,4", "float[1,1,1,2] c = {4, -9}", x="UINT2",
    )  # fmt: skip
    grid = integer_grid(found)
    assert grid.low.reshape(-1).tolist() == [0, -9, 0, -9]
    assert grid.high.reshape(-1).tolist() == [7, 0, 7, 0]


def test_xnor_popcount_counts_up_to_the_inner_dimension() -> None:
    found = found_for(
        "y = qonnx.custom_op.general.XnorPopcountMatMul (x, w)",
        "1,3",
        "1,2",
        "float[3,2] w = {0, 1, 1, 1, 0, 0}",
        x="BINARY",
    )
    assert (integer_grid(found).low.item(), integer_grid(found).high.item()) == (0, 3)


def test_quantized_average_pooling_sums_and_shifts() -> None:
    found = found_for(
        """y = qonnx.custom_op.general.QuantAvgPool2d <kernel = 2, stride = 2, ibits = 4, obits = 4, signed = 0,
            data_layout = "NCHW"> (x)""",
        "1,1,4,4", "1,1,2,2", x="UINT4",
    )  # fmt: skip
    assert (integer_grid(found).low.item(), integer_grid(found).high.item()) == (0, 15)


@pytest.mark.parametrize("padded", [False, True])
def test_convolutions_with_channels_last_are_those_with_channels_first(padded: bool) -> None:
    weights = np.random.default_rng(0).integers(-4, 5, (3, 2, 2, 2))
    text = ", ".join(map(str, weights.reshape(-1).tolist()))
    turned = ", ".join(map(str, weights.transpose(0, 2, 3, 1).reshape(-1).tolist()))
    attributes = f"kernel_shape = [2, 2], group = 1, dilations = [1, 1], strides = [1, 1], pads = {[int(padded)] * 4}"
    first = found_for(
        f"v = Mul (x, c)  y = Conv <{attributes}> (v, w)", "1,2,4,4", f"1,3,{3 + 2 * padded},{3 + 2 * padded}",
        f"float[3,2,2,2] w = {{{text}}}, float[1,2,1,1] c = {{1, -3}}", x="INT3",
    )  # fmt: skip
    last = found_for(
        f"v = Mul (x, c)  y = qonnx.custom_op.channels_last.Conv <{attributes}> (v, w)", "1,4,4,2",
        f"1,{3 + 2 * padded},{3 + 2 * padded},3",
        f"float[3,2,2,2] w = {{{turned}}}, float[1,1,1,2] c = {{1, -3}}", x="INT3",
    )  # fmt: skip
    assert integer_grid(last).low.shape == (1, 1, 1, 3)
    assert integer_grid(last).low.reshape(-1).tolist() == integer_grid(first).low.reshape(-1).tolist()
    assert integer_grid(last).high.reshape(-1).tolist() == integer_grid(first).high.reshape(-1).tolist()


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolutions_with_channels_last_are_those_with_channels_first(group: int) -> None:
    weights = np.random.default_rng(0).integers(-4, 5, (2, 3, 2, 3))
    text = ", ".join(map(str, weights.reshape(-1).tolist()))
    turned = ", ".join(map(str, weights.transpose(0, 2, 3, 1).reshape(-1).tolist()))
    attributes = f"kernel_shape = [2, 3], group = {group}, strides = [2, 1]"
    first = found_for(
        f"v = Mul (x, c)  y = ConvTranspose <{attributes}> (v, w)", "1,2,4,4", f"1,{3 * group},8,6",
        f"float[2,3,2,3] w = {{{text}}}, float[1,2,1,1] c = {{1, -3}}", x="INT3",
    )  # fmt: skip
    last = found_for(
        f"v = Mul (x, c)  y = qonnx.custom_op.channels_last.ConvTranspose <{attributes}> (v, w)", "1,4,4,2",
        f"1,8,6,{3 * group}", f"float[2,2,3,3] w = {{{turned}}}, float[1,1,1,2] c = {{1, -3}}", x="INT3",
    )  # fmt: skip
    assert integer_grid(last).low.shape == (1, 1, 1, 3 * group)
    assert integer_grid(last).low.reshape(-1).tolist() == integer_grid(first).low.reshape(-1).tolist()
    assert integer_grid(last).high.reshape(-1).tolist() == integer_grid(first).high.reshape(-1).tolist()


@pytest.mark.parametrize("bounds", [("INT4", -8, 7), ("UINT2", 0, 3), ("BIPOLAR", -1, 1), ("BINARY", 0, 1)])
@pytest.mark.parametrize("weights", [(1, 1, 1), (2, -3, 1), (-1, 5, -1), (0.5, 0.5, 0.5)])
def test_weighted_thresholds_are_followed_up_and_down(
    bounds: tuple[str, int, int], weights: tuple[float, float, float]
) -> None:
    kind, low, high = bounds
    steps = np.array([[-3, 1, 2], [5, -2, 0.5]])
    found = found_for(
        "y = onnx_passes.MultiThreshold <out_bias = -1.0> (x, t, w)", "1,2", "1,2",
        f"float[2,3] t = {{-3, 1, 2, 5, -2, 0.5}}, float[3] w = {{{weights[0]}, {weights[1]}, {weights[2]}}}", x=kind,
    )  # fmt: skip
    inputs = np.arange(low, high + 1)
    results = np.stack([((inputs[:, None] >= row) * np.array(weights)).sum(1) - 1 for row in steps])
    assert np.broadcast_to(found.low, (1, 2))[0] == pytest.approx(results.min(1), abs=1e-5)
    assert np.broadcast_to(found.high, (1, 2))[0] == pytest.approx(results.max(1), abs=1e-5)
    assert found.grid is not None


@pytest.mark.parametrize("weight", [1, -2, 0.25])
def test_weighted_thresholds_of_many_channels_keep_their_grid(weight: float) -> None:
    channels, amount = 384, 255
    steps = ", ".join(str(step) for _ in range(channels) for step in range(1, amount + 1))
    weights = ", ".join([str(weight)] * (channels * amount))
    found = found_for(
        "y = onnx_passes.MultiThreshold <out_bias = -128.0> (x, t, w)", f"1,{channels}", f"1,{channels}",
        f"float[{channels},{amount}] t = {{{steps}}}, float[{channels},{amount}] w = {{{weights}}}", x="UINT8",
    )  # fmt: skip
    assert found.grid is not None
    low, high = found.grid.bounds
    assert sorted([float(low.min()), float(high.max())]) == sorted(
        [min(0, weight) * 255 - 128, max(0, weight) * 255 - 128]
    )


def test_where_no_rank_is_known_ranges_hold_for_all_elements() -> None:
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: [{DOMAINS}]> g (float[1,2] x) => (float y) <float[1,2] c = {{1, -2}}> {{
          v = Mul (x, c)
          w = Add (v, v)
          y = ReduceMax <keepdims = 0> (w)
        }}"""
    )
    found = {value.name: known for value, known in ranges_of(model, {"x": "UINT2"}).items()}
    assert found["w"].low.shape == ()
    assert (found["w"].low.item(), found["w"].high.item()) == (-12, 6)
    assert (found["y"].low.item(), found["y"].high.item()) == (-12, 6)
