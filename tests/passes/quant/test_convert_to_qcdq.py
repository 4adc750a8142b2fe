from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.passes.quant.convert_to_qcdq import ConvertToQcdq
from tests.passes.quant.tools import applied, computed, model_of, quantized, quantizers, reasons, ties
from tests.passes.tools import apply, operators, run

BODY = 'y = qonnx.custom_op.general.Quant <signed = {}, narrow = {}, rounding_mode = "{}"> (x, s, z, b)'
TRIPLE = ["QuantizeLinear", "Clip", "DequantizeLinear"]


def quant(
    bits: float,
    signed: int = 1,
    narrow: int = 0,
    *,
    rounding: str = "ROUND",
    s: str = "float s = {0.3}",
    z: str = "float z = {0}",
    x: str = "float[N,3] x",
    y: str = "float[N,3] y",
    opset: int = 21,
) -> ir.Model:
    return quantized(f"{s}, {z}, float b = {{{bits}}}", BODY.format(signed, narrow, rounding), x, y, opset)


def weights(bits: float, more: str = "", *, s: str = "float s = {0.3}", z: str = "float z = {0}") -> ir.Model:
    parameters = f"float[3] w = {{-1.5, 0.4, 2.0}}, {s}, {z}, float b = {{{bits}}}"
    attributes = f"<{more}>" if more else ""
    return quantized(parameters, f"v = qonnx.custom_op.general.Quant {attributes} (w, s, z, b) y = Mul (x, v)")


def stored_types(model: ir.Model) -> list[str]:
    """Return the types of what is dequantized."""
    found: list[str] = []
    for node in model.graph:
        if node.op_type == "DequantizeLinear":
            value = node.inputs[0]
            while value is not None and value.producer() is not None and value.producer().op_type == "Clip":
                value = value.producer().inputs[0]
            tensor = constant_tensor(value)
            dtype = tensor.dtype if tensor is not None else None if value is None else value.dtype
            found.append("" if dtype is None else dtype.name)
    return found


@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "dtype", "has_clip"),
    [
        (8, 1, 0, "INT8", False),
        (8, 0, 0, "UINT8", False),
        (8, 1, 1, "INT8", True),
        (8, 0, 1, "UINT8", True),
        (4, 1, 0, "INT8", True),
        (4, 0, 1, "UINT8", True),
        (2, 1, 1, "INT8", True),
        (1, 0, 0, "UINT8", True),
        (16, 1, 0, "INT16", False),
        (16, 0, 0, "UINT16", False),
    ],
)
def test_activations(bits: int, signed: int, narrow: int, dtype: str, has_clip: bool):
    before, model = quant(bits, signed, narrow), prepared(quant(bits, signed, narrow))
    assert apply(ConvertToQcdq(), model)
    assert operators(model.graph) == [name for name in TRIPLE if name != "Clip" or has_clip]
    assert stored_types(model) == [dtype]
    x = ties(0.3)
    # A signed Quant has negative zeros, integers do not.
    assert np.array_equal(run(model, {"x": x})[0], computed(before, x=x)[0])


def prepared(model: ir.Model) -> ir.Model:
    return onnx_passes.apply(model, "import-qonnx, shape-inference").model


@pytest.mark.parametrize(("signed", "dtype"), [(1, "INT4"), (0, "UINT4")])
def test_four_bits_may_be_stored_as_such(signed: int, dtype: str):
    model = applied("convert-to-qcdq{int4=true}", quant(4, signed))
    assert operators(model.graph) == ["QuantizeLinear", "DequantizeLinear"]
    assert stored_types(model) == [dtype]
    assert operators(applied("convert-to-qcdq{int4=true}", quant(4, signed, narrow=1)).graph) == TRIPLE
    assert operators(applied("convert-to-qcdq{int4=true}", quant(4, signed, opset=17)).graph) == TRIPLE


@pytest.mark.parametrize(
    ("scale", "axis"),
    [
        ("float[3] s = {0.3, 0.2, 0.1}", 2),
        ("float[1,1,3] s = {0.3, 0.2, 0.1}", 2),
        ("float[2,1] s = {0.3, 0.2}", 1),
        ("float[4,1,1] s = {0.3, 0.2, 0.1, 0.05}", 0),
        ("float[1,1,1] s = {0.3}", None),
        ("float[1] s = {0.3}", None),
    ],
)
def test_scales_keep_their_axis(scale: str, axis: int | None):
    shape = {"x": "float[4,2,3] x", "y": "float[4,2,3] y"}
    before, model = quant(4, s=scale, **shape), applied("convert-to-qcdq", quant(4, s=scale, **shape))
    for node in model.graph:
        if node.op_type != "Clip":
            assert (node.attributes.get_int("axis", -9) if "axis" in node.attributes else None) == axis
    x = ties(0.1).ravel()[:24].reshape(4, 2, 3)
    assert np.array_equal(run(model, {"x": x})[0], computed(before, x=x)[0])


@pytest.mark.parametrize(
    ("bits", "more", "zero", "dtype", "has_clip"),
    [
        (8, "", 0, "INT8", False),
        (8, "signed = 0", 3, "UINT8", False),
        (8, "signed = 0, narrow = 1", 0, "UINT8", True),
        (3, "narrow = 1", 1, "INT8", True),
        (12, "", 0, "INT32", True),
        (16, "signed = 0", 128, "UINT16", False),
        (32, "", 0, "INT32", False),
        (1, "", 0, "INT8", True),
        (4, 'rounding_mode = "FLOOR"', 0, "INT8", True),
        (4, 'rounding_mode = "HALF_UP"', 0, "INT8", True),
    ],
)
def test_constants_are_stored_as_integers(bits: int, more: str, zero: int, dtype: str, has_clip: bool):
    zeros = f"float z = {{{zero}}}"
    before, model = weights(bits, more, z=zeros), applied("convert-to-qcdq", weights(bits, more, z=zeros))
    assert operators(model.graph) == [*(["Clip"] if has_clip else []), "DequantizeLinear", "Mul"]
    assert stored_types(model) == [dtype]
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(run(model, {"x": x})[0], computed(before, x=x)[0])


@pytest.mark.parametrize("rounding", ["FLOOR", "CEIL", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "ROUND_TO_ZERO"])
def test_other_ways_of_rounding_stay(rounding: str):
    assert "half to even" in reasons("convert-to-qcdq{rest=keep}", quant(4, rounding=rounding))


def test_all_names_of_half_to_even():
    for rounding in ("round", "HALF_EVEN", "half_even"):
        assert operators(applied("convert-to-qcdq", quant(4, rounding=rounding)).graph) == TRIPLE


@pytest.mark.parametrize("operator", ["onnx.brevitas.Quant", "qonnx.custom_op.general.IntQuant"])
def test_all_names_of_the_operator(operator: str):
    body = f"y = {operator} <signed = 1, narrow = 0> (x, s, z, b)"
    model = quantized("float s = {0.3}, float z = {0}, float b = {4}", body)
    assert operators(applied("convert-to-qcdq", model).graph) == TRIPLE


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (quant(4, z="float z = {3}"), "adds after rounding"),
        (quant(4, z="float z = {0.5}"), "adds after rounding"),
        (weights(4, z="float z = {0.5}"), "not an integer"),
        (weights(4, z="float z = {300}"), "does not fit into INT8"),
        (weights(12, z="float z = {3}"), "takes no zero point"),
        (quant(1), "one signed bit"),
        (quant(9), "no type of 9 bits"),
        (quant(2.5), "no integer type of 2.5 bits"),
        (quant(16, narrow=1), "full range"),
        (quant(16, opset=17), "opset 21"),
        (quant(4, s="float s = {-0.3}"), "not a positive number"),
        (weights(4, s="float s = {0}"), "not a positive number"),
        (quant(4, s="float[2,3] s = {1, 2, 3, 4, 5, 6}", x="float[2,3] x", y="float[2,3] y"), "several axes"),
        (quant(4, s="float[1,1,1] s = {1}", y="float[1,N,3] y"), "higher rank"),
        (quant(4, s="float[3] s = {1, 2, 3}", x="float[N,1] x"), "as many channels"),
        (quant(4, s="float[3] s = {1, 2, 3}", x="float[N,M] x", y="float[N,K] y"), "as many channels"),
        (quant(4, x="double[N,3] x", y="double[N,3] y"), "single precision"),
    ],
)
def test_refuses(model: ir.Model, reason: str):
    assert reason in reasons("convert-to-qcdq{rest=keep}", model)


@pytest.mark.parametrize("name", ["scale", "zero point", "bit width"])
def test_refuses_what_is_computed(name: str):
    given = {"scale": "s", "zero point": "z", "bit width": "b"}[name]
    constants = ", ".join(f"float {other} = {{4}}" for other in "szb" if other != given)
    body = BODY.format(1, 0, "ROUND")
    model = model_of(f"g (float[N,3] x, float {given}) => (float[N,3] y) <{constants}> {{ {body} }}")
    assert f"the {name} is not constant" in reasons("convert-to-qcdq{rest=keep}", model)


def test_refuses_widths_of_channels():
    body = BODY.format(1, 0, "ROUND")
    model = quantized("float s = {1}, float z = {0}, float[3] b = {2, 3, 4}", body)
    assert "bit widths are per channel" in reasons("convert-to-qcdq{rest=keep}", model)


def test_refuses_old_versions_that_were_not_imported():
    model, context = quant(4, opset=12), Context()
    ConvertToQcdq().run(model, context)
    assert [reason for rule in context.record.rules for reason in rule.refused] == [
        "it needs opset 13: convert-opset{version=13} first"
    ]


def test_zero_points_on_request_are_one_step_off_at_ties():
    before = quant(8, 0, z="float z = {33}")
    there = onnx_passes.apply(before, "convert-to-qcdq{asymmetric=true}", verify=False).model
    assert operators(there.graph) == ["QuantizeLinear", "DequantizeLinear"]
    x = np.random.default_rng(0).uniform(-20, 80, (1000, 3)).astype(np.float32)
    assert np.array_equal(run(there, {"x": x})[0], computed(before, x=x)[0])
    steps = np.abs(run(there, {"x": ties(0.3)})[0] - computed(before, x=ties(0.3))[0]) / 0.3
    assert 0.99 < steps.max() < 1.01
    outside = quant(8, 1, z="float z = {200}")
    assert "does not fit into INT8" in reasons("convert-to-qcdq{asymmetric=true, rest=keep}", outside)


@settings(max_examples=10, deadline=None)
@given(
    bits=st.integers(1, 8),
    signed=st.booleans(),
    narrow=st.booleans(),
    scales=st.lists(st.floats(2.0**-10, 2.0**10, width=32), min_size=3, max_size=3),
    per_channel=st.booleans(),
    zero=st.integers(-128, 127),
)
def test_there_and_back_again(bits: int, signed: bool, narrow: bool, scales: list[float], per_channel: bool, zero: int):
    bits += bits == 1 and signed
    zero += 0 if signed else 128
    numbers = ", ".join(map(repr, scales)) if per_channel else repr(scales[0])
    kind = "float[1,3]" if per_channel else "float"
    first = f"a = qonnx.custom_op.general.Quant <signed = {int(signed)}, narrow = {int(narrow)}> (x, s, z, b)"
    second = f"v = qonnx.custom_op.general.Quant <signed = {int(signed)}, narrow = {int(narrow)}> (w, s, t, b)"
    parameters = f"{kind} s = {{{numbers}}}, float z = {{0}}, float t = {{{zero}}}, float b = {{{bits}}}"
    constants = "float[2,3] w = {-1.5, 0.4, 2.0, 10.0, -20.0, 0.0}"
    model = quantized(f"{parameters}, {constants}", f"{first} {second} y = Mul (a, v)", "float[2,3] x", "float[2,3] y")
    there = applied("convert-to-qcdq", model)
    assert "Quant" not in operators(there.graph)
    back = applied("convert-qcdq", there)
    assert operators(back.graph) == ["Quant", "Quant", "Mul"]
    made, wanted = ([(*q[:3], np.ravel(q.scale).tolist()) for q in quantizers(m)] for m in (back, model))
    assert made == wanted
    assert [set(np.ravel(q.zero)) for q in quantizers(back)] == [{0.0}, {float(zero)}]
    x = ties(scales[0], 8).ravel()[:6].reshape(2, 3)
    assert np.array_equal(computed(back, x=x)[0], computed(model, x=x)[0])


def test_every_reader_of_a_quantizer_is_served():
    body = f"{BODY.format(1, 0, 'ROUND')} w = Neg (y) v = Abs (y)"
    parameters = "float s = {0.3}, float z = {0}, float b = {4}"
    model = quantized(parameters, body, y="float[N,3] y, float[N,3] w, float[N,3] v")
    assert operators(applied("convert-to-qcdq", model).graph) == [*TRIPLE, "Neg", "Abs"]


@pytest.mark.parametrize(("target", "noted"), [("onnxruntime", True), ("openvino", False)])
def test_results_of_default_sessions_are_said_to_differ(target: str, noted: bool):
    quantizer = 'qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND">'
    parameters = "float s = {0.3}, float z = {0}, float b = {8}, float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}"
    product = quantized(
        parameters, f"q = {quantizer} (x, s, z, b) y = MatMul (q, w)", "float[N,3] x", "float[N,3] y", 21
    )
    for model, expected in ((product, noted), (quant(8), False)):
        result = onnx_passes.apply(model, f"convert-to-qcdq{{target={target}}}")
        notes = [note for step in result.record.steps for note in step.notes]
        assert any("optimizations off" in note and "disable_quant_qdq=1" in note for note in notes) == expected


def test_the_session_option_of_the_note_leaves_float_rounding():
    """Layers between quantizers, which ONNX Runtime by default computes in integers."""
    random = np.random.default_rng(0)
    w, v = (", ".join(map(str, random.normal(0, 1, 256).astype(np.float32))) for _ in range(2))
    quantizer = 'qonnx.custom_op.general.Quant<signed=1, narrow=0, rounding_mode="ROUND">'
    model = quantized(
        "float s = {0.05}, float t = {0.1}, float zero = {0}, float b = {8},"
        f" float[16,16] w = {{{w}}}, float[16,16] v = {{{v}}}",
        f"q = {quantizer}(x, s, zero, b) wq = {quantizer}(w, s, zero, b) a = MatMul(q, wq)"
        f" r = {quantizer}(a, t, zero, b) vq = {quantizer}(v, s, zero, b) y = MatMul(r, vq)",
        "float[64,16] x",
        "float[64,16] y",
        21,
    )
    content = onnx_passes.apply(model, "convert-to-qcdq").proto.SerializeToString()
    x = {"x": random.normal(0, 1, (64, 16)).astype(np.float32)}

    def results(level: object, **entries: str) -> np.ndarray:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 4
        for key, text in entries.items():
            options.add_session_config_entry(f"session.{key}", text)
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return session.run(None, x)[0]

    levels = onnxruntime.GraphOptimizationLevel
    plain, kept = results(levels.ORT_DISABLE_ALL), results(levels.ORT_ENABLE_ALL, disable_quant_qdq="1")
    np.testing.assert_allclose(kept, plain, rtol=1e-4, atol=1e-4)
