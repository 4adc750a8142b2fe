from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.numbers.range import Range, bits_for
from tests.analysis.ranges.soundness import inferred, require_sound

GENERAL = '"qonnx.custom_op.general": 1'


def model_of(text: str) -> ir.Model:
    return inferred(ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 18, {GENERAL}]>\n{text}'))


def known(text: str, **seeds: Any) -> dict[str, Range]:
    return {value.name or "": found for value, found in ranges_of(model_of(text), seeds).items()}


def one(text: str, name: str = "y", **seeds: Any) -> Range:
    return known(text, **seeds)[name]


def integers(found: Range) -> tuple[list[int], list[int]]:
    assert found.grid is not None
    return found.grid.low.reshape(-1).tolist(), found.grid.high.reshape(-1).tolist()


QUANT = "qonnx.custom_op.general.Quant"


def test_a_quantizer_gives_its_scale_zero_point_and_the_integers_of_its_bits() -> None:
    found = one(
        f"""g (float[2,3] x) => (float[2,3] y)
        <float[1,3] s = {{0.5, 0.25, 0.125}}, float z = {{2}}, float b = {{4}}> {{
          y = {QUANT} <signed = 0, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
        }}"""
    )
    assert found.grid is not None
    assert found.grid.scale.tolist() == [[0.5, 0.25, 0.125]]
    assert found.grid.bias.tolist() == [[-1.0, -0.5, -0.25]]
    assert integers(found) == ([0], [15])
    assert found.low.tolist() == [[-1.0, -0.5, -0.25]]
    assert found.high.tolist() == [[6.5, 3.25, 1.625]]


def test_a_quantizer_of_a_narrow_range_gives_only_the_integers_that_can_occur() -> None:
    text = f"""g (float[2] x) => (float[2] y) <float s = {{0.5}}, float z = {{0}}, float b = {{4}}> {{
          y = {QUANT} <signed = 1, narrow = 0, rounding_mode = "FLOOR"> (x, s, z, b)
        }}"""
    assert integers(one(text, x=(-0.3, 1.2))) == ([-1], [2])


@pytest.mark.parametrize(("bounds", "expected"), [((-1.0, 1.0), ([-1], [1])), ((0.0, 1.0), ([1], [1]))])
def test_one_signed_bit_is_minus_one_or_one(bounds: tuple[float, float], expected: Any) -> None:
    text = f"""g (float[2] x) => (float[2] y) <float s = {{0.5}}, float z = {{0}}, float b = {{1}}> {{
          y = {QUANT} <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
        }}"""
    assert integers(one(text, x=bounds)) == expected


def test_a_quantized_constant_has_the_integers_that_its_quantizer_computes() -> None:
    found = one(
        f"""g (float[1] x) => (float[1] x2, float[2,2] y)
        <float[2,2] w = {{0.3, -0.3, 1.0, 7.0}}, float[2,1] s = {{0.25, 0.5}}, float z = {{0}}, float b = {{3}}> {{
          x2 = Identity (x)
          y = {QUANT} <signed = 1, narrow = 1, rounding_mode = "ROUND"> (w, s, z, b)
        }}"""
    )
    assert found.grid is not None
    assert found.is_point
    assert found.grid.low.tolist() == [[1, -1], [2, 3]]
    assert found.low.tolist() == [[0.25, -0.25], [1.0, 1.5]]


MATMUL = """g (float[1,3] x) => (float[1,2] y) <float[3,2] w = {1, -2, 3, 0, -1, 4}> { y = MatMul (x, w) }"""


def test_accumulators_are_bounded_by_the_weights_of_each_output() -> None:
    found = one(MATMUL, x="UINT4")
    assert integers(found) == ([-15, -30], [60])
    assert found.grid is not None
    assert found.grid.is_integer
    assert found.low.tolist() == [[-15, -30]]
    assert found.high.tolist() == [[60]]


def test_a_matrix_product_multiplies_the_scales_of_input_and_output_channel() -> None:
    found = one(
        f"""g (float[1,2] x) => (float[1,2] y)
        <float s = {{0.5}}, float z = {{0}}, float b = {{2}}, float c = {{4}},
         float[2,2] w = {{0.75, -0.5, 0.25, 0.5}}, float[1,2] t = {{0.25, 0.5}}> {{
          q = {QUANT} <signed = 0, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
          v = {QUANT} <signed = 1, narrow = 0, rounding_mode = "ROUND"> (w, t, z, c)
          y = MatMul (q, v)
        }}"""
    )
    assert found.grid is not None
    assert found.grid.scale.tolist() == [[0.125, 0.25]]
    assert integers(found) == ([0, -3], [12, 3])


@pytest.mark.parametrize(("scales", "kept"), [("0.5, 1.5", True), ("0.5, 0.7", False)])
def test_scales_that_vary_along_the_sum_are_kept_only_as_multiples(scales: str, kept: bool) -> None:
    found = one(
        f"""g (float[1,2] x) => (float[1,1] y) <float[1,2] s = {{{scales}}}, float[2,1] w = {{1, 1}}> {{
          v = Mul (x, s)
          y = MatMul (v, w)
        }}""",
        x="UINT2",
    )
    assert (found.grid is not None) is kept
    if kept:
        assert integers(found) == ([0], [12])


CONV = """g (float[1,1,4,4] x) => (float[1,1,4,4] y)
    <float[1,1,3,3] w = {1, 1, 1, 1, -2, 1, 1, 1, 1}, float c = {OFFSET}> {
      v = Add (x, c)
      y = Conv <pads = [1, 1, 1, 1], kernel_shape = [3, 3]> (v, w)
    }"""


def test_padding_with_zeros_is_among_the_integers() -> None:
    found = one(CONV.replace("OFFSET", "2"), x="UINT2")
    assert integers(found) == ([-10], [40])


def test_padding_off_the_grid_makes_the_bias_less_at_the_border() -> None:
    text = CONV.replace("OFFSET", "2.5")
    found = one(text, x="UINT2")
    assert found.grid is not None
    assert integers(found) == ([-6], [24])
    assert found.grid.bias[0, 0].tolist() == [
        [2.5, 7.5, 7.5, 2.5],
        [7.5, 15.0, 15.0, 7.5],
        [7.5, 15.0, 15.0, 7.5],
        [2.5, 7.5, 7.5, 2.5],
    ]
    assert found.low.item() == pytest.approx(-11, rel=1e-5)
    assert found.high.item() == pytest.approx(44, rel=1e-5)
    samples = [{"x": np.random.default_rng(0).integers(0, 4, (1, 1, 4, 4)).astype(np.float32)} for _ in range(3)]
    assert require_sound(model_of(text), {"x": "UINT2"}, samples)["grid"] == 6


def test_padding_off_the_grid_loses_the_grid_where_sizes_are_not_known() -> None:
    found = one(CONV.replace("OFFSET", "2.5").replace("1,1,4,4", "1,1,H,4"), x="UINT2")
    assert found.grid is None
    assert found.low.item() == pytest.approx(-11, rel=1e-5)


@pytest.mark.parametrize(
    ("attributes", "multiple"),
    [
        ("pads = [1, 1, 1, 1]", 36),
        ("pads = [1, 0, 0, 0]", 18),
        ('auto_pad = "SAME_UPPER", strides = [2, 2]', 36),
        ('auto_pad = "SAME_LOWER", strides = [2, 2]', 36),
        ("ceil_mode = 1, strides = [2, 2]", 36),
        ("ceil_mode = 1, strides = [3, 3], pads = [1, 1, 1, 1]", 36),
        ("ceil_mode = 1, strides = [2, 2], pads = [1, 1, 0, 0], count_include_pad = 1", None),
    ],
)
def test_averages_of_different_numbers_have_one_grid(attributes: str, multiple: int | None) -> None:
    model = model_of(
        f"""g (float[1,1,6,6] x) => (float[1,1,H,W] y) {{
          y = AveragePool <kernel_shape = [3, 3], {attributes}> (x)
        }}"""
    )
    grid = ranges_of(model, {"x": "INT4"})[model.graph.outputs[0]].grid
    assert (None if grid is None else round(1 / grid.scale.item())) == multiple
    samples = [{"x": np.random.default_rng(0).integers(-8, 8, (1, 1, 6, 6)).astype(np.float32)} for _ in range(3)]
    require_sound(model, {"x": "INT4"}, samples)


def test_without_padding_the_bias_goes_through_the_weights() -> None:
    text = (
        CONV.replace("OFFSET", "2.5")
        .replace("pads = [1, 1, 1, 1], ", "")
        .replace("float[1,1,4,4] y", "float[1,1,2,2] y")
    )
    found = one(text, x="UINT2")
    assert found.grid is not None
    assert found.grid.bias.item() == 15.0
    assert integers(found) == ([-6], [24])


def test_depthwise_convolutions_keep_a_scale_for_each_channel() -> None:
    found = one(
        """g (float[1,2,2,2] x) => (float[1,2,2,2] y)
        <float[1,2,1,1] s = {0.3, 0.7}, float[2,1,1,1] w = {2, -3}> {
          v = Mul (x, s)
          y = Conv <group = 2, kernel_shape = [1, 1]> (v, w)
        }""",
        x="UINT2",
    )
    assert found.grid is not None
    assert found.grid.scale.reshape(-1) == pytest.approx([0.3, 0.7])
    assert integers(found) == ([0, -9], [6, 0])


def test_batch_normalization_keeps_integers_and_changes_scale_and_bias() -> None:
    found = one(
        """g (float[1,3,2] x) => (float[1,3,2] y)
        <float[3] gamma = {2, -1, 0}, float[3] beta = {1, 0, 5},
         float[3] mean = {0.5, 1, 1}, float[3] var = {4, 1, 1}> {
          y = BatchNormalization <epsilon = 0.0> (x, gamma, beta, mean, var)
        }""",
        x="INT3",
    )
    assert found.grid is not None
    assert found.grid.scale.reshape(-1).tolist()[:2] == [1.0, -1.0]
    assert found.grid.bias.reshape(-1).tolist() == [0.5, 1.0, 5.0]
    assert integers(found) == ([-4, -4, 0], [3, 3, 0])
    assert found.low.reshape(-1) == pytest.approx([-3.5, -2, 5], rel=1e-5)
    assert found.high.reshape(-1) == pytest.approx([3.5, 5, 5], rel=1e-5)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(0.5, 0.5, (0.5, 0, 6)), (1.5, 0.5, (0.5, 0, 12)), (0.5, -0.5, (0.5, -3, 3)), (0.5, 0.3, None)],
)
def test_sums_need_a_common_step(first: float, second: float, expected: tuple[float, int, int] | None) -> None:
    found = one(
        f"""g (float[2] x, float[2] z) => (float[2] y) <float s = {{{first}}}, float t = {{{second}}}> {{
          p = Mul (x, s)
          q = Mul (z, t)
          y = Add (p, q)
        }}""",
        x="UINT2",
        z="UINT2",
    )
    if expected is None:
        assert found.grid is None
    else:
        assert found.grid is not None
        assert (found.grid.scale.item(), *(item[0] for item in integers(found))) == expected


def test_relu_keeps_a_grid_that_holds_zero() -> None:
    text = "g (float[2] x) => (float[2] y) <float c = {OFFSET}> { v = Add (x, c)  y = Relu (v) }"
    assert integers(one(text.replace("OFFSET", "1"), x="INT3")) == ([0], [4])
    assert one(text.replace("OFFSET", "0.5"), x="INT3").grid is None
    assert one(text.replace("OFFSET", "4.5"), x="INT3").grid is not None


def test_concatenated_grids_differ_along_the_axis() -> None:
    found = one(
        """g (float[1,2] x) => (float[1,4] y) <float s = {0.3}, float t = {0.7}> {
          p = Mul (x, s)
          q = Mul (x, t)
          y = Concat <axis = 1> (p, q)
        }""",
        x="UINT2",
    )
    assert found.grid is not None
    assert found.grid.scale.reshape(-1) == pytest.approx([0.3, 0.3, 0.7, 0.7])
    assert found.grid.high.shape == (1, 1)


def test_what_is_known_of_channels_survives_flattening() -> None:
    found = one(
        """g (float[N,2,3] x) => (float[N,6] y) <float[1,2,1] s = {0.5, 2}> { v = Mul (x, s)  y = Flatten (v) }""",
        x="UINT2",
    )
    assert found.grid is not None
    assert found.grid.scale.tolist() == [[0.5, 0.5, 0.5, 2, 2, 2]]
    assert found.grid.high.shape == (1, 1)


def test_averages_have_a_finer_grid() -> None:
    found = one("g (float[1,2,2,3] x) => (float[1,2,1,1] y) { y = GlobalAveragePool (x) }", x="UINT2")
    assert found.grid is not None
    assert found.grid.scale.item() == pytest.approx(1 / 6)
    assert integers(found) == ([0], [18])


def test_thresholds_that_are_never_or_always_reached_do_not_count() -> None:
    text = """g (float[1,2] x) => (float[1,2] y) <float[2,3] t = {-20, 1, 30, 0, 5, 6}> {
          y = qonnx.custom_op.general.MultiThreshold
            <out_dtype = "INT4", out_scale = SCALE, out_bias = -1.0, data_layout = "NC"> (x, t)
        }"""
    found = one(text.replace("SCALE", "0.5"), x="INT4")
    assert found.grid is not None
    assert integers(found) == ([1, 0], [2, 3])
    assert (found.grid.scale.item(), found.grid.bias.item()) == (0.5, -1.0)
    assert integers(one(text.replace("SCALE", "2.0"), x="INT4")) == ([1, -1], [3, 5])


def test_integers_that_may_wrap_around_are_anything_of_their_type() -> None:
    text = "g (int8[2] x) => (int8[2] y) <int8[1] c = {100}> { y = Add (x, c) }"
    assert integers(one(text)) == ([-128], [127])
    assert integers(one(text, x=(-5.0, 5.0))) == ([95], [105])


def test_nothing_is_known_of_unbounded_inputs_and_of_unknown_operators() -> None:
    found = known("g (float[2] x) => (float[2] y) { v = com.example.Magic (x)  y = Relu (v) }")
    assert found["x"].is_unknown
    assert found["v"].is_unknown
    assert (found["y"].low.item(), found["y"].high.item()) == (0.0, np.inf)


def test_what_an_if_gives_is_that_of_one_of_its_branches() -> None:
    found = one(
        """g (bool c, float[1] x) => (float[1] y) {
          y = If (c) <
            then_branch = t () => (float[1] a) { a = Relu (x) },
            else_branch = e () => (float[1] b) { b = Neg (x) }
          >
        }""",
        x=(0.0, 1.0),
    )
    assert (found.low.item(), found.high.item()) == (-1.0, 1.0)


def test_initializers_that_callers_can_override_are_no_constants() -> None:
    model = model_of("g (float[1] x, float[1] c) => (float[1] y) <float[1] c = {1}> { y = Add (x, c) }")
    found = ranges_of(model, {"x": (0.0, 1.0)})
    assert found[model.graph.outputs[0]].is_unknown


def test_bounds_are_rounded_outwards() -> None:
    found = one("g (float[1] x) => (float[1] y) <float c = {0.1}> { y = Mul (x, c) }", x=(-1.0, 1 / 3))
    product = np.float64(np.float32(0.1)) * (1 / 3)
    assert found.high.item() >= product
    assert found.high.item() == np.float64(np.float32(found.high.item()))
    assert found.high.item() - product <= 2e-9


def test_integer_arithmetic_is_not_widened() -> None:
    found = one(
        "g (float[1] x) => (float[1] y) <float c = {3}, float d = {5}> { v = Mul (x, c)  y = Sub (v, d) }", x="INT8"
    )
    assert (found.low.item(), found.high.item()) == (-389, 376)
    assert found.integer_grid is not None
    assert integers(found) == ([-389], [376])


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(0, 0, 0), (0, 1, 1), (0, 255, 8), (0, 256, 9), (-1, 0, 1), (-8, 7, 4), (-9, 7, 5), (-1, 8, 5), (3, 4, 3)],
)
def test_bits_hold_all_integers_of_a_range(low: int, high: int, bits: int) -> None:
    assert bits_for(low, high) == bits


def test_bits_of_an_empty_range_are_an_error() -> None:
    with pytest.raises(ValueError, match="greater"):
        bits_for(1, 0)


@pytest.mark.parametrize(
    "body",
    [
        "y = Softmax <axis = 1> (x)",
        "y = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 0, 0]> (x)",
        """v = Transpose <perm = [0, 2, 3, 1]> (x)
        y = qonnx.custom_op.general.MaxPoolNHWC <kernel_shape = [2, 2], strides = [2, 2]> (v)""",
    ],
)
def test_values_of_images_stay_where_they_are_said_to_be(body: str) -> None:
    model = model_of(f"g (float[1,2,4,4] x) => (float[A,B,C,D] y) {{ {body} }}")
    found = ranges_of(model, {"x": "INT4"})
    assert not found[model.graph.outputs[0]].is_unknown
    if "NHWC" not in body:
        samples = [{"x": np.random.default_rng(0).integers(-8, 8, (1, 2, 4, 4)).astype(np.float32)}]
        assert require_sound(model, {"x": "INT4"}, samples)["bounded"]


def test_integers_that_floats_may_miss_are_not_exact() -> None:
    model = model_of(
        """g (float[50] x) => (float[50] y, float[50] z) <float c = {9}, float d = {2}> {
          u = Div (x, c)
          v = Mul (u, c)
          y = Floor (v)
          z = Mul (x, d)
        }"""
    )
    found = {value.name: known.grid for value, known in ranges_of(model, {"x": "UINT6"}).items()}
    assert found["v"] is not None
    assert found["v"].is_integer
    assert not found["v"].exact
    assert found["z"] is not None
    assert found["z"].exact
    samples = [{"x": np.arange(50, dtype=np.float32)}]
    assert require_sound(model, {"x": "UINT6"}, samples)["exact"] == 2


def test_sums_of_products_are_exact_while_floats_can_hold_them() -> None:
    found = known(MATMUL, x="UINT4")["y"].grid
    assert found is not None
    assert found.exact
    wide = known(MATMUL.replace("{1, -2,", "{8388608, -2,"), x="UINT4")["y"]
    assert wide.grid is not None
    assert not wide.grid.exact
    assert (wide.low < wide.grid.bounds[0]).all()


@pytest.mark.parametrize(("more", "exact"), [(0, True), (2, False)])
@pytest.mark.parametrize(
    "body",
    [
        "y = MatMul (x, w)",
        "y = Gemm (x, w)",
        'y = Einsum <equation = "ij,jk->ik"> (x, w)',
        "v = Unsqueeze (x, last)  t = Transpose (w)  k = Unsqueeze (t, last)  y = Conv (v, k)",
        "t = Transpose (w)  p = Mul (x, t)  y = ReduceSum (p, one)",
    ],
)
def test_floats_hold_sums_up_to_two_to_the_24th(body: str, more: int, exact: bool) -> None:
    weights = ", ".join(["1048576"] * 16 + [str(more)])
    text = f"""g (float[1,17] x) => (float[1,1] y)
    <float[17,1] w = {{{weights}}}, int64[1] last = {{2}}, int64[1] one = {{1}}> {{ {body} }}"""
    found = one(text, x="BINARY")
    assert found.grid is not None
    assert integers(found) == ([0], [2**24 + more])
    assert found.grid.exact is exact


@pytest.mark.parametrize(
    ("equation", "first", "second", "result"),
    [
        ("bij,jk->bik", "2,3,4", "4,5", "2,3,5"),
        ("bhid,bhjd->bhij", "1,2,3,4", "1,2,5,4", "1,2,3,5"),
        ("...ij,...jk->...ik", "2,3,4", "2,4,5", "2,3,5"),
        ("ij,ij->i", "3,4", "3,4", "3"),
        ("ij,k->kji", "3,4", "2", "2,4,3"),
        ("ij,jk", "3,4", "4,2", "3,2"),
        ("ij,kl->", "3,4", "2,2", ""),
    ],
)
def test_einsum_adds_up_along_what_the_result_has_not(equation: str, first: str, second: str, result: str) -> None:
    declared = f"float[{result}] y" if result else "float y"
    model = model_of(
        f"""g (float[{first}] a, float[{second}] b) => ({declared}) <float s = {{0.5}}> {{
          p = Mul (a, s)
          y = Einsum <equation = "{equation}"> (p, b)
        }}"""
    )
    random = np.random.default_rng(0)
    shapes = {value.name or "": [int(str(size)) for size in value.shape or ()] for value in model.graph.inputs}
    samples = [
        {
            name: random.choice([-8, 7] if ends else range(-8, 8), shape).astype(np.float32)
            for name, shape in shapes.items()
        }
        for ends in (0, 1, 1)
    ]
    assert require_sound(model, {"a": "INT4", "b": "INT4"}, samples)["grid"] == 6
