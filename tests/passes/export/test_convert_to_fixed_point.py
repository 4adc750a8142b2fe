from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.passes.export.hls4ml_layers import FixedPointArray
from onnx_passes.testing import check_pass

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
HEAD = f'<ir_version: 8, opset_import: ["" : 17, "{GENERAL}" : 1, "{LAST}" : 1]>'
QUANT = f"{GENERAL}.Quant"
BITS = '<signed = 0, narrow = 0, rounding_mode = "FLOOR">'
SIGNED = '<signed = 1, narrow = 0, rounding_mode = "ROUND">'
UNSIGNED = '<signed = 0, narrow = 0, rounding_mode = "ROUND">'
PASS = "convert-to-fixed-point"
SCALARS = "float one = {1}, float zero = {0}"


def dense(constants: str, body: str, results: int = 2) -> str:
    return f"{HEAD} g (float[1, 2] x) => (float[1, {results}] y) <{SCALARS}, {constants}> {{ {body} }}"


def image(constants: str, body: str, size: int = 4, result: str = "1, 4, 4, 2") -> str:
    return f"{HEAD} g (float[1, {size}, {size}, 2] x) => (float[{result}] y) <{SCALARS}, {constants}> {{ {body} }}"


def check(before: str, after: str) -> onnx_passes.Result:
    """Convert, and compare without regard to which constants are shared or left over."""
    cleaned = "deduplicate-initializers, remove-unused"
    return check_pass(before, f"{PASS}, {cleaned}", onnx_passes.apply(after.encode(), cleaned, verify=False).model)


def second(text: str) -> str:
    """Give a model the second version of QONNX's operators, as Trunc has it."""
    return text.replace(f'"{GENERAL}" : 1', f'"{GENERAL}" : 2')


def reasons(result: onnx_passes.Result) -> list[str]:
    return [reason for step in result.steps for rule in step.rules for reason in rule.refused]


def test_writes_a_layer_with_weights_near_one_and_one_scale_and_shift() -> None:
    check(
        dense(
            "float[2, 2] w = {2, -1, 3, 1}, float[1, 2] s = {0.3, 0.6}, float[2] b = {1.1, -0.7}",
            "p = MatMul (x, w)  q = Mul (p, s)  y = Add (q, b)",
        ),
        dense(
            """float[2, 2] w = {1.0, -0.5, 1.5, 0.5}, float e = {0.5}, float n = {3}, float[2] s = {0.6, 1.2},
            float[2] b = {1.1, -0.7}, float[2] mean = {0, 0}, float[2] var = {1, 1}""",
            f"""v = {QUANT} {SIGNED} (w, e, zero, n)  p = MatMul (x, v)
            y = BatchNormalization <epsilon = 0.0> (p, s, b, mean, var)""",
        ),
    )


def test_powers_of_two_vanish_in_the_weights_and_biases_tell_their_bits() -> None:
    check(
        dense(
            """float[2, 2] w = {0.5, -0.26, 0.74, 0.25}, float s = {0.25}, float n = {4}, float k = {4},
            float[2] b = {0.5, -0.375}""",
            f"v = {QUANT} {SIGNED} (w, s, zero, n)  p = MatMul (x, v)  q = Mul (p, k)  y = Sub (q, b)",
        ),
        dense(
            "float[2, 2] w = {2, -1, 3, 1}, float n = {3}, float[2] b = {-0.5, 0.375}, float e = {0.125}",
            f"""v = {QUANT} {SIGNED} (w, one, zero, n)  p = MatMul (x, v)
            c = {QUANT} {SIGNED} (b, e, zero, n)  y = Add (p, c)""",
        ),
    )


def test_products_of_half_precision_are_refused_for_their_type() -> None:
    half = "float16[2, 2]"
    model = ir.from_onnx_text(f"{HEAD} g ({half} x) => ({half} y) <{half} w = {{1, 2, 3, 4}}> {{ y = MatMul (x, w) }}")
    assert "it is not computed in float32" in str(onnx_passes.why_not(model, PASS))


def test_scales_of_channels_leave_the_quantizer_of_weights() -> None:
    check(
        dense(
            "float[2, 2] w = {0.6, -0.4, 0.9, 0.4}, float[1, 2] s = {0.3, 0.4}, float n = {4}",
            f"v = {QUANT} {SIGNED} (w, s, zero, n)  y = MatMul (x, v)",
        ),
        dense(
            "float[2, 2] w = {0.5, -0.25, 0.75, 0.25}, float e = {0.25}, float n = {3}, float[2] s = {1.2, 1.6}",
            f"v = {QUANT} {SIGNED} (w, e, zero, n)  p = MatMul (x, v)  y = Mul (p, s)",
        ),
    )


def test_a_factor_of_the_next_quantizer_meets_the_layer_in_front_of_relu() -> None:
    check(
        dense(
            "float[2, 2] w = {2, -1, 3, 1}, float s = {0.25}, float n = {4}",
            f"p = MatMul (x, w)  r = Relu (p)  d = Div (r, s)  y = {QUANT} {UNSIGNED} (d, one, zero, n)",
        ),
        dense(
            "float[2, 2] w = {8, -4, 12, 4}, float e = {4}, float m = {3}, float n = {4}",
            f"""v = {QUANT} {SIGNED} (w, e, zero, m)  p = MatMul (x, v)  r = Relu (p)
            y = {QUANT} {UNSIGNED} (r, one, zero, n)""",
        ),
    )


def test_a_quantizer_keeps_its_power_of_two_which_the_next_layer_takes_up() -> None:
    check(
        dense(
            "float[2, 2] w = {2, -1, 3, 1}, float s = {0.25}, float n = {4}",
            f"d = Div (x, s)  q = {QUANT} {SIGNED} (d, one, zero, n)  y = MatMul (q, w)",
        ),
        dense(
            "float[2, 2] w = {8, -4, 12, 4}, float e = {4}, float m = {3}, float s = {0.25}, float n = {4}",
            f"q = {QUANT} {SIGNED} (x, s, zero, n)  v = {QUANT} {SIGNED} (w, e, zero, m)  y = MatMul (q, v)",
        ),
    )


BEHIND = f"""v = {QUANT} {SIGNED} (w, two, zero, two)  p = MatMul (q, v)
            c = {QUANT} {SIGNED} (b, two, zero, two)  y = Add (p, c)"""


def test_signs_become_bits_and_their_scale_and_shift_go_behind_the_product() -> None:
    check(
        dense(
            "float[2, 2] w = {1, -1, 1, 1}, float n = {4}",
            f"i = {QUANT} {SIGNED} (x, one, zero, n)  q = {GENERAL}.BipolarQuant (i, one)  y = MatMul (q, w)",
        ),
        dense(
            "float[2, 2] w = {2, -2, 2, 2}, float two = {2}, float[2] b = {-2, 0}, float n = {4}",
            f"""i = {QUANT} {SIGNED} (x, one, zero, n)  u = {QUANT} {UNSIGNED} (one, one, zero, one)  a = Add (i, u)
            q = {QUANT} {BITS} (a, one, zero, one)  {BEHIND}""",
        ),
    )


def test_signs_of_floats_are_rounded_down_first_so_that_the_least_negative_ones_stay_negative() -> None:
    check(
        dense("float[2, 2] w = {1, -1, 1, 1}", f"q = {GENERAL}.BipolarQuant (x, one)  y = MatMul (q, w)"),
        dense(
            "float[2, 2] w = {2, -2, 2, 2}, float two = {2}, float[2] b = {-2, 0}",
            f"""i = {QUANT} <signed = 1, narrow = 1, rounding_mode = "FLOOR"> (x, one, zero, two)
            u = {QUANT} {UNSIGNED} (one, one, zero, one)  a = Add (i, u)
            q = {QUANT} {BITS} (a, one, zero, one)  {BEHIND}""",
        ),
    )


def test_the_larger_of_a_value_and_a_constant_is_a_relu_whose_shifts_meet_others() -> None:
    check(
        dense(
            "float[2, 2] w = {2, -1, 3, 1}, float[1, 2] c = {-4, 2}, float[1, 2] b = {4, -2}",
            "p = MatMul (x, w)  m = Max (p, c)  y = Add (m, b)",
        ),
        dense(
            "float[2, 2] w = {2, -1, 3, 1}, float n = {3}, float[2] c = {4, -2}, float two = {2}",
            f"""v = {QUANT} {SIGNED} (w, one, zero, n)  p = MatMul (x, v)
            d = {QUANT} {SIGNED} (c, two, zero, n)  a = Add (p, d)  y = Relu (a)""",
        ),
    )


def test_a_convolution_takes_its_shift_as_bias() -> None:
    weights = "float[2, 1, 1, 2] w = {2, -1, 3, 1}"
    conv = f"{LAST}.Conv <kernel_shape = [1, 1], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1>"
    check(
        image(f"{weights}, float[2] b = {{1, 3}}, float[2] s = {{1, -2}}", f"c = {conv} (x, w, b)  y = Add (c, s)"),
        image(
            f"{weights}, float n = {{3}}, float[2] b = {{2, 1}}, float two = {{2}}",
            f"v = {QUANT} {SIGNED} (w, one, zero, n)  a = {QUANT} {UNSIGNED} (b, one, zero, two)  y = {conv} (x, v, a)",
        ),
    )


def test_a_mean_of_pixels_is_a_convolution_with_ones() -> None:
    attributes = "strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], kernel_shape = [4, 4], group = 2"
    check(
        image("int64[2] axes = {1, 2}", "y = ReduceMean <axes = [1, 2], keepdims = 1> (x)", result="1, 1, 1, 2"),
        image(
            f"float[2, 4, 4, 1] w = {{{', '.join(['0.0625'] * 32)}}}, float e = {{0.0625}}",
            f"v = {QUANT} {UNSIGNED} (w, e, zero, one)  y = {LAST}.Conv <{attributes}> (x, v)",
            result="1, 1, 1, 2",
        ),
    )


def test_sums_of_windows_are_convolutions_with_ones_and_their_mean_is_in_the_weights() -> None:
    windows = "kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0], dilations = [1, 1]"
    check(
        image("float unused = {0}", f"y = {LAST}.AveragePool <{windows}> (x)", result="1, 2, 2, 2"),
        image(
            f"float[2, 2, 2, 1] w = {{{', '.join(['0.25'] * 8)}}}, float e = {{0.25}}",
            f"v = {QUANT} {UNSIGNED} (w, e, zero, one)  y = {LAST}.Conv <{windows}, group = 2> (x, v)",
            result="1, 2, 2, 2",
        ),
    )


def test_the_largest_of_all_pixels_is_pooled() -> None:
    windows = "kernel_shape = [4, 4], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], ceil_mode = 0"
    check(
        image("float unused = {0}", "y = ReduceMax <axes = [1, 2], keepdims = 1> (x)", result="1, 1, 1, 2"),
        image("float unused = {0}", f"y = {LAST}.MaxPool <{windows}> (x)", result="1, 1, 1, 2"),
    )


TRUNC = f'{GENERAL}.Trunc <signed = 0, narrow = 0, rounding_mode = "FLOOR">'


def test_dropping_bits_of_integers_is_rounding_down() -> None:
    constants, quantized = "float n = {8}, float four = {4}", f"q = {QUANT} {UNSIGNED} (x, one, zero, n)"
    check(
        second(dense(constants, f"{quantized}  y = {TRUNC} (q, one, zero, n, four, four)")),
        second(dense(constants, f"{quantized}  y = {QUANT} {BITS} (q, four, zero, four)")),
    )


@pytest.mark.parametrize("parameters", ["one, zero, n, four, four", "three, zero, n, twelve, four"])
def test_refuses_to_drop_bits_where_floats_may_be_off_the_grid(parameters: str) -> None:
    constants = "float n = {8}, float four = {4}, float three = {3}, float twelve = {12}"
    before = second(dense(constants, f"y = {TRUNC} (x, {parameters})"))
    assert "its parameters are not constant, or the scale of its input is not known" in reasons(check(before, before))


def test_a_value_between_two_constants_is_two_relus() -> None:
    norm = "BatchNormalization <epsilon = 0.0>"
    check(
        dense("float six = {6}", "y = Clip (x, zero, six)"),
        dense(
            "float[2] s = {-1, -1}, float[2] b = {6, 6}, float[2] m = {0, 0}, float[2] v = {1, 1}",
            f"a = Relu (x)  c = {norm} (a, s, b, m, v)  d = Relu (c)  y = {norm} (d, s, b, m, v)",
        ),
    )


def test_refuses_a_scale_and_shift_for_each_pixel() -> None:
    numbers = ", ".join(map(str, range(1, 33)))
    before = image(f"float[1, 4, 4, 2] s = {{{numbers}}}, float[2] b = {{1, 2}}", "a = Mul (x, s)  y = Add (a, b)")
    assert "scale or shift vary from pixel to pixel" in reasons(check(before, before))


def test_leaves_weights_alone_that_no_fixed_point_numbers_are() -> None:
    before = dense("float[2, 2] w = {0.1, 0.2, 0.3, 0.7}", "y = MatMul (x, w)")
    check(before, before)


def test_what_is_written_so_stays() -> None:
    before = dense(
        "float[2, 2] w = {0.6, -0.4, 0.9, 0.4}, float[1, 2] s = {0.3, 0.4}, float n = {4}",
        f"v = {QUANT} {SIGNED} (w, s, zero, n)  y = MatMul (x, v)",
    )
    once = onnx_passes.apply(before.encode(), PASS).model
    assert not any(step.modified for step in onnx_passes.apply(once, PASS).steps)


@pytest.mark.parametrize(
    ("numbers", "exponent", "bits", "signed"),
    [([0.5, 1.25], -2, 3, False), ([-8, 24], 3, 3, True), ([0, 0], 0, 1, False), ([-1, -1], 0, 2, True)],
)
def test_finds_the_fewest_bits_of_fixed_point_numbers(
    numbers: list[float], exponent: int, bits: int, signed: bool
) -> None:
    found = FixedPointArray.of(np.array(numbers))
    assert found is not None
    assert (found.exponent, found.bits, found.signed) == (exponent, bits, signed)
    assert np.array_equal(found.array, numbers)


def test_numbers_of_many_bits_are_no_fixed_point_numbers() -> None:
    assert FixedPointArray.of(np.array([0.1])) is None
    assert FixedPointArray.of(np.array([1.0, 2.0**-20])) is None
    assert FixedPointArray.of(np.array([np.inf])) is None


def test_is_announced_rewrite_by_rewrite() -> None:
    before = dense("float[2, 2] w = {2, -1, 3, 1}, float s = {3}", "p = MatMul (x, w)  y = Mul (p, s)")
    [step] = [step for step in onnx_passes.apply(before.encode(), PASS).steps if step.name == PASS]
    assert step.evidence is not None
    assert step.evidence.windows == step.applications == 1
