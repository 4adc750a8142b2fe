from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.passes.quant.convert_qcdq import ConvertQcdq
from tests.passes.quant.tools import (
    applied,
    assert_same_bits,
    computed,
    model_of,
    quantized,
    quantizers,
    reasons,
    ties,
    with_constant,
)
from tests.passes.tools import apply, operators, run

SIMPLE = "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"
CLIPPED = "q = QuantizeLinear (x, s, z) c = Clip (q, low, high) y = DequantizeLinear (c, s, z)"


def linear(kind: str, zero: int, bounds: tuple[int, int] | None = None, scale: str = "0.3") -> ir.Model:
    parameters = f"float s = {{{scale}}}, {kind} z = {{{zero}}}"
    if bounds is None:
        return quantized(parameters, SIMPLE)
    low, high = bounds
    return quantized(f"{parameters}, {kind} low = {{{low}}}, {kind} high = {{{high}}}", CLIPPED)


@pytest.mark.parametrize(
    ("kind", "zero", "bounds", "bits", "signed", "narrow", "has_clip"),
    [
        ("int8", 0, None, 8, True, False, False),
        ("uint8", 0, None, 8, False, False, False),
        ("int16", 0, None, 16, True, False, False),
        ("uint16", 0, None, 16, False, False, False),
        ("int4", 0, None, 4, True, False, False),
        ("uint4", 0, None, 4, False, False, False),
        ("int8", 0, (-127, 127), 8, True, True, False),
        ("int8", 0, (-8, 7), 4, True, False, False),
        ("int8", 0, (-7, 7), 4, True, True, False),
        ("int8", 0, (-1, 1), 2, True, True, False),
        ("uint8", 0, (0, 15), 4, False, False, False),
        ("uint8", 0, (0, 14), 4, False, True, False),
        ("uint8", 0, (0, 1), 1, False, False, False),
        ("int8", 0, (0, 127), 7, False, False, False),
        ("uint8", 0, (0, 5), 3, False, False, True),
        ("int8", 0, (-1, 0), 2, True, False, True),
        ("int8", 0, (3, 10), 4, False, False, True),
        ("int8", 0, (-100, -3), 8, True, False, True),
        ("uint8", 128, None, 8, True, False, False),
        ("uint8", 128, (1, 255), 8, True, True, False),
        ("int8", -128, None, 8, False, False, False),
        ("uint8", 33, None, 9, True, False, True),
        ("uint8", 1, (1, 16), 4, False, False, False),
        ("uint8", 3, (0, 15), 5, True, False, True),
        ("uint4", 3, None, 5, True, False, True),
        ("uint16", 38377, None, 17, True, False, True),
    ],
)
def test_the_width_is_that_of_the_range_less_the_zero_point(
    kind: str, zero: int, bounds: tuple[int, int] | None, bits: int, signed: bool, narrow: bool, has_clip: bool
):
    before, model = linear(kind, zero, bounds), ready(linear(kind, zero, bounds))
    assert apply(ConvertQcdq(), model)
    (made,) = quantizers(model)
    assert (made.bits, made.signed, made.narrow, made.rounding) == (bits, signed, narrow, "ROUND")
    assert made.zero == 0
    assert operators(model.graph) == ["Quant", "Clip"] if has_clip else ["Quant"]
    x = ties(0.3, 300)
    if "4" in kind:
        # ONNX Runtime does not saturate 4-bit integers there.
        x = np.clip(x, -1e6, 1e6)
    assert_same_bits(computed(model, x=x), run(before, {"x": x}))


def ready(model: ir.Model) -> ir.Model:
    return onnx_passes.apply(model, "shape-inference").model


@settings(max_examples=10, deadline=None)
@given(
    scale=st.floats(2.0**-20, 2.0**10, width=32),
    zero=st.integers(0, 255),
    ends=st.tuples(st.integers(0, 255), st.integers(0, 255)),
)
def test_all_ties_fall_the_same_way(scale: float, zero: int, ends: tuple[int, int]):
    bounds = (min(ends), max(ends))
    before = linear("uint8", zero, bounds, repr(float(scale)))
    model = ready(linear("uint8", zero, bounds, repr(float(scale))))
    ConvertQcdq()(model)
    assert "QuantizeLinear" not in operators(model.graph)
    x = ties(scale, 64)
    assert_same_bits(computed(model, x=x), run(before, {"x": x}))


@pytest.mark.parametrize("kind", ["int2", "uint2"])
def test_two_bits(kind: str):
    parameters = f"float s = {{0.3}}, {kind} z = {{0}}"
    before, model = (quantized(parameters, SIMPLE, opset=25) for _ in range(2))
    model = applied("convert-qcdq", model)
    assert [(q.bits, q.signed) for q in quantizers(model)] == [(2, kind == "int2")]
    x = np.clip(ties(0.3, 10), -1e6, 1e6)
    assert_same_bits(computed(model, x=x), run(before, {"x": x}))


@pytest.mark.parametrize(
    ("body", "bits", "signed"),
    [
        ("q = QuantizeLinear (x, s) y = DequantizeLinear (q, s)", 8, False),
        ("q = QuantizeLinear <output_dtype = 3> (x, s) y = DequantizeLinear (q, s)", 8, True),
        ("q = QuantizeLinear <output_dtype = 22> (x, s) y = DequantizeLinear (q, s)", 4, True),
        ("q = QuantizeLinear (x, s) y = DequantizeLinear (q, s, zero)", 8, False),
        (
            "q = com.microsoft.QuantizeLinear (x, s, zero) y = com.microsoft.DequantizeLinear (q, s, zero)",
            8,
            False,
        ),
    ],
)
def test_a_zero_point_may_be_left_out(body: str, bits: int, signed: bool):
    model = applied("convert-qcdq", quantized("float s = {0.3}, uint8 zero = {0}", body))
    assert [(q.bits, q.signed) for q in quantizers(model)] == [(bits, signed)]


@pytest.mark.parametrize(("axis", "back"), [("axis = 1", "axis = 1"), ("axis = -1", "axis = 1"), ("", "")])
def test_scales_of_channels_are_put_on_their_axis(axis: str, back: str):
    body = f"q = QuantizeLinear <{axis}> (x, s, z) y = DequantizeLinear <{back}> (q, s, z)".replace("<> ", "")
    parameters = "float[3] s = {0.5, 0.25, 0.3}, int8[3] z = {0, 0, 0}"
    before, model = (quantized(parameters, body) for _ in range(2))
    model = applied("convert-qcdq", model)
    assert [np.shape(q.scale) for q in quantizers(model)] == [(1, 3)]
    assert_same_bits(computed(model, x=ties(0.25)), run(before, {"x": ties(0.25)}))


def test_an_axis_in_the_middle():
    parameters = "float[2] s = {0.5, 0.25}, uint8[2] z = {0, 7}"
    body = "q = QuantizeLinear <axis = 1> (x, s, z) y = DequantizeLinear <axis = 1> (q, s, z)"
    before, model = (quantized(parameters, body, "float[3,2,5] x", "float[3,2,5] y") for _ in range(2))
    model = applied("convert-qcdq", model)
    assert operators(model.graph) == ["Quant", "Max", "Min"]
    x = ties(0.25).ravel()[:30].reshape(3, 2, 5)
    assert_same_bits(computed(model, x=x), run(before, {"x": x}))


def test_one_scale_in_a_row_does_not_raise_the_rank():
    model = quantized("float[1] s = {0.3}, int8[1] z = {0}", SIMPLE, "float x", "float y")
    model = applied("convert-qcdq", model)
    assert [q.scale for q in quantizers(model)] == [pytest.approx(0.3)]


def test_every_reader_gets_its_own_quantizer():
    first = "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)"
    second = "c = Clip (q, z, z) w = DequantizeLinear (c, s, z)"
    head = "g (float[N,3] x) => (float[N,3] y, float[N,3] w, uint8[N,3] q) <float s = {0.3}, uint8 z = {0}>"
    model = applied("convert-qcdq", model_of(f"{head} {{ {first} {second} }}"))
    assert sorted(operators(model.graph)) == ["Quant", "Quant", "QuantizeLinear"]


def test_inside_of_a_branch():
    one = "t () => (float[N,3] w) { q = QuantizeLinear (x, s, z) w = DequantizeLinear (q, s, z) }"
    body = f"y = If (c) <then_branch = {one}, else_branch = e () => (float[N,3] v) {{ v = Neg (x) }}>"
    model = model_of(f"g (float[N,3] x, bool c) => (float[N,3] y) <float s = {{0.3}}, int8 z = {{0}}> {{ {body} }}")
    model = onnx_passes.apply(model, "convert-qcdq").model
    branch = next(iter(model.graph)).attributes["then_branch"].as_graph()
    assert operators(branch) == ["Quant"]


@pytest.mark.parametrize(
    ("parameters", "bounds", "bits", "signed", "narrow", "zero"),
    [
        ("int8[3] w = {-128, 0, 127}, float s = {0.3}, int8 z = {0}", None, 8, True, False, 0),
        ("int8[3] w = {-128, 0, 127}, float s = {0.3}, int8 z = {5}", None, 8, True, False, 5),
        ("uint8[3] w = {0, 128, 255}, float s = {0.3}, uint8 z = {128}", None, 8, False, False, 128),
        ("int32[3] w = {-70000, 0, 12}, float s = {0.0003}, int32 z = {0}", None, 32, True, False, 0),
        ("int16[3] w = {-32768, 0, 12}, float s = {0.0003}, int16 z = {0}", None, 16, True, False, 0),
        ("int8[3] w = {-128, 0, 3}, float s = {0.3}, int8 z = {0}", (-7, 7), 4, True, True, 0),
        ("uint8[3] w = {0, 9, 3}, float s = {0.3}, uint8 z = {0}", (0, 5), 3, False, False, 0),
    ],
)
def test_constants(parameters: str, bounds: tuple[int, int] | None, bits: int, signed: bool, narrow: bool, zero: int):
    body = "v = DequantizeLinear (w, s, z) y = Mul (x, v)"
    if bounds:
        kind = parameters.split("[")[0]
        parameters += f", {kind} low = {{{bounds[0]}}}, {kind} high = {{{bounds[1]}}}"
        body = "c = Clip (w, low, high) " + body.replace("(w", "(c")
    before, model = (quantized(parameters, body) for _ in range(2))
    model = applied("convert-qcdq", model)
    assert operators(model.graph) == ["Quant", "Mul"]
    assert [q[:3] for q in quantizers(model)] == [(bits, signed, narrow)]
    assert [q.zero for q in quantizers(model)] == [zero]
    x = ties(0.25, 5)
    assert_same_bits(computed(model, x=x), run(before, {"x": x}))


@pytest.mark.parametrize(
    ("dtype", "numbers", "zero"),
    [
        (ir.DataType.INT4, [-8, 0, 7], 0),
        (ir.DataType.UINT4, [0, 8, 15], 3),
        (ir.DataType.INT2, [-2, 0, 1], 0),
        (ir.DataType.UINT2, [0, 3, 1], 1),
    ],
)
def test_narrow_constants(dtype: ir.DataType, numbers: list[int], zero: int):
    def narrow() -> ir.Model:
        body = "v = DequantizeLinear (w, s, z) y = Mul (x, v)"
        model = quantized("int8[3] w = {0, 0, 0}, float s = {0.3}, int8 z = {0}", body, opset=25)
        return with_constant(with_constant(model, "w", numbers, dtype), "z", [zero], dtype)

    model = applied("convert-qcdq", narrow())
    assert [q[:3] for q in quantizers(model)] == [(dtype.bitwidth, dtype.is_signed(), False)]
    x = ties(0.25, 5)
    assert_same_bits(computed(model, x=x), run(narrow(), {"x": x}))
    wanted = (np.array(numbers, np.float32) - zero) * np.float32(0.3)
    assert np.array_equal(computed(model, x=np.ones((1, 3), np.float32))[0][0], wanted)


def test_constants_with_scales_of_channels():
    parameters = "int8[2,3] w = {-128, 0, 127, 3, 2, 1}, float[2] s = {0.5, 0.3}, int8[2] z = {0, 3}"
    body = "v = DequantizeLinear <axis = -2> (w, s, z) y = Mul (x, v)"
    before, model = (quantized(parameters, body, "float[2,3] x", "float[2,3] y") for _ in range(2))
    model = applied("convert-qcdq", model)
    assert [(np.shape(q.scale), np.shape(q.zero)) for q in quantizers(model)] == [((2, 1), (2, 1))]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same_bits(computed(model, x=x), run(before, {"x": x}))


BLOCKS = "q = QuantizeLinear <block_size = 3, axis = 1> (x, s) y = DequantizeLinear <block_size = 3, axis = 1> (q, s)"


@pytest.mark.parametrize(
    ("parameters", "body", "reason"),
    [
        ("float s = {0.3}, int8 z = {0}, float t = {0.5}", SIMPLE.replace("(q, s", "(q, t"), "different scales"),
        ("float s = {0.3}, int8 z = {0}, int8 o = {1}", SIMPLE.replace("(q, s, z", "(q, s, o"), "different scales"),
        ("float s = {-0.3}, int8 z = {0}", SIMPLE, "not positive"),
        ("float s = {0}, int8 z = {0}", SIMPLE, "not positive"),
        ("float s = {0.3}, float8e4m3fn z = {0}", SIMPLE, "not an integer type"),
        ("float s = {0.3}, int8 z = {0}, int8 low = {3}, int8 high = {1}", CLIPPED, "exclude each other"),
        ("float[2,1] s = {0.3, 0.2}", BLOCKS, "block"),
    ],
)  # fmt: skip
def test_refuses(parameters: str, body: str, reason: str):
    assert reason in reasons("convert-qcdq", quantized(parameters, body, "float[2,3] x", "float[2,3] y"))


def test_refuses_what_is_computed_or_can_be_overridden():
    header, body = "g (float[N,3] x, {}) => (float[N,3] y)", f"{{ {SIMPLE} }}"
    zero = "<int8 z = {0}>"
    assert "scale is not constant" in reasons("convert-qcdq", model_of(header.format("float s") + zero + body))
    overridable = header.format("float s = {0.3}") + zero + body
    assert "the scale is an input with a default: run remove-initializers" in reasons(
        "convert-qcdq", model_of(overridable)
    )
    given = "g (uint8[N,3] x) => (float[N,3] y) <float s = {0.3}> { y = DequantizeLinear (x, s) }"
    assert "neither constant nor" in reasons("convert-qcdq", model_of(given))


def test_refuses_half_precision():
    half = quantized("float16 s = {13517}, int8 z = {0}", SIMPLE, "float16[N,3] x", "float16[N,3] y")
    assert "single precision" in reasons("convert-qcdq", half)


def test_refuses_integers_to_quantize():
    model = quantized("float s = {0.3}, int8 z = {0}", SIMPLE, "int32[N,3] x")
    assert "single precision" in reasons("convert-qcdq", model)


def test_refuses_scales_of_channels_where_the_rank_is_not_known():
    parameters = "float[3] s = {0.5, 0.25, 0.3}, int8[3] z = {0, 0, 0}, float[2] shape = {0, 0}"
    body = "h = Cast <to = 7> (n) r = Reshape (x, h) q = QuantizeLinear (r, s, z) y = DequantizeLinear (q, s, z)"
    model = quantized(parameters, body, "float[6] x, float[r] n", "float[a,b] y")
    model.graph.outputs[0].shape = None
    assert "rank is not known" in reasons("convert-qcdq", model)


def test_refuses_constants_that_quantizing_changes():
    integers = np.arange(2**24 - 2**12, 2**24)
    scale = next(
        s
        for s in np.linspace(0.1, 1, 1000, dtype=np.float32)
        if (integers.astype(np.float32) * s / s != integers).any()
    )
    (wrong,) = np.nonzero(integers.astype(np.float32) * scale / scale != integers)
    parameters = f"int32[1] w = {{{integers[wrong[0]]}}}, float s = {{{float(scale)!r}}}"
    model = quantized(parameters, "v = DequantizeLinear (w, s) y = Mul (x, v)")
    assert "does not restore the integers" in reasons("convert-qcdq", model)


def test_refuses_constants_that_overflow_when_the_zero_point_is_subtracted():
    parameters = "int32[1] w = {2147483647}, float s = {4}, int32 z = {-2}"
    model = quantized(parameters, "v = DequantizeLinear (w, s, z) y = Mul (x, v)")
    assert "exceed 32 bits" in reasons("convert-qcdq", model)
