from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.passes.quant.samples import QOPERATOR
from tests.passes.quant.tools import applied, model_of, reasons
from tests.passes.tools import operators, run

ONE = "float xs = {0.3}, uint8 xz = {3}, float ys = {0.7}, uint8 yz = {10}"
TWO = "float as = {0.1}, uint8 az = {3}, float bs = {0.2}, uint8 bz = {4}, float ys = {0.7}, uint8 yz = {100}"
CONV = "y = QLinearConv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, xs, xz, w, ws, wz, ys, yz"


def named(model: ir.Model) -> str:
    return next(iter(model.graph)).op_type


@pytest.mark.parametrize("text", QOPERATOR[:10], ids=lambda text: named(ir.from_onnx_text(text)))
def test_every_operator_becomes_one_on_floats(text: str):
    model = ir.from_onnx_text(text)
    name = named(model).removeprefix("QLinear").removeprefix("Q")
    left = operators(applied("convert-qoperator", model).graph)
    assert left[-2:] == [name, "QuantizeLinear"]
    assert set(left[:-2]) == {"DequantizeLinear"}


def feeds_of(model: ir.Model, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {str(v.name): tuple(int(d) for d in v.shape or () if isinstance(d, int)) for v in model.graph.inputs}
    return {name: random.integers(0, 256, shape).astype(np.uint8) for name, shape in shapes.items()}


def weights(kind: str, low: int, high: int, shape: tuple[int, ...]) -> str:
    numbers = np.random.default_rng(0).integers(low, high, shape)
    sizes = ",".join(map(str, shape))
    return f"{kind}[{sizes}] w = {{{', '.join(map(str, numbers.ravel()))}}}"


@pytest.mark.parametrize(
    ("kind", "low", "high", "scale", "zero"),
    [
        ("uint8", 0, 256, "float ws = {0.02}", "uint8 wz = {120}"),
        ("int8", -64, 65, "float ws = {0.02}", "int8 wz = {0}"),
        ("int8", -64, 65, "float[4] ws = {0.02, 0.01, 0.03, 0.011}", "int8[4] wz = {0, 0, 1, 2}"),
        ("int8", -64, 65, "float[4] ws = {0.02, 0.01, 0.03, 0.011}", "int8 wz = {0}"),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_differ_by_one_step_at_most(kind: str, low: int, high: int, scale: str, zero: str, bias: bool):
    if "[4]" in scale and "[4]" not in zero and kind == "int8":
        zero = "int8[4] wz = {0, 0, 0, 0}"
    parameters = f"{ONE}, {weights(kind, low, high, (4, 8, 3, 3))}, {scale}, {zero}"
    parameters += ", int32[4] b = {1000, -77, 0, 5}" if bias else ""
    call = f"{CONV}{', b' if bias else ''})"
    text = f"g (uint8[2,8,7,7] x) => (uint8[2,4,7,7] y) <{parameters}> {{ {call} }}"
    model = applied("convert-qoperator", model_of(text, 17))
    feeds = feeds_of(model, 1)
    (expected,), (found,) = run(model_of(text, 17), feeds), run(model, feeds)
    distance = np.abs(expected.astype(int) - found.astype(int))
    assert distance.max() <= 1
    assert distance.mean() < 0.01


def exact_conv(parameters: str) -> ir.Model:
    text = f"g (uint8[1,8,4,4] x) => (uint8[1,4,4,4] y) <{ONE}, {parameters}> {{ {CONV}) }}"
    return model_of(text, 17)


def test_refuses_sums_that_saturate_on_some_machines():
    model = exact_conv(f"{weights('int8', -128, 128, (4, 8, 3, 3))}, float ws = {{0.02}}, int8 wz = {{0}}")
    assert "depends on the machine" in reasons("convert-qoperator", model)
    model = exact_conv(f"{weights('int8', -128, 128, (4, 8, 3, 3))}, float ws = {{0.02}}, int8 wz = {{0}}")
    result = onnx_passes.apply(model, "convert-qoperator{saturating=true}", verify=False)
    assert operators(result.model.graph)[-2:] == ["Conv", "QuantizeLinear"]


def test_refuses_groups_that_saturate_on_some_machines():
    call = CONV.replace("QLinearConv <", "QLinearConv <group = 2, ")
    parameters = f"{ONE}, {weights('int8', -128, 128, (4, 4, 3, 3))}, float ws = {{0.02}}, int8 wz = {{0}}"
    text = f"g (uint8[1,8,4,4] x) => (uint8[1,4,4,4] y) <{parameters}> {{ {call}) }}"
    assert "depends on the machine" in reasons("convert-qoperator", model_of(text, 17))


def test_what_saturates_is_right_by_the_standard():
    a, w = np.full((1, 64), 255, np.uint8), np.full((64, 1), 127, np.int8)
    numbers = ", ".join(map(str, w.ravel()))
    parameters = f"int8[64,1] w = {{{numbers}}}, float s = {{1}}, float ys = {{32768}}, uint8 z = {{0}}, int8 o = {{0}}"
    text = f"g (uint8[1,64] a) => (uint8[1,1] y) <{parameters}> {{ y = QLinearMatMul (a, s, z, w, s, o, ys, z) }}"
    model = onnx_passes.apply(model_of(text), "convert-qoperator{saturating=true}", verify=False).model
    exact = round(int(a[0].astype(int) @ w[:, 0].astype(int)) / 32768)
    assert run(model, {"a": a})[0].item() == exact


@pytest.mark.parametrize("alpha", ["", "alpha = 0.25, transB = 1", "transA = 1"])
@pytest.mark.parametrize("quantized", [True, False])
def test_gemm(alpha: str, quantized: bool):
    shapes = {"": ("4,5", "5,3"), "transA = 1": ("5,4", "5,3")}.get(alpha, ("4,5", "3,5"))
    attributes = f"<{alpha}>" if alpha else ""
    last, kind = (", ys, yz", "uint8") if quantized else ("", "float")
    head = f"g (uint8[{shapes[0]}] a, uint8[{shapes[1]}] b) => ({kind}[4,3] y) <{TWO}, int32[3] c = {{5, -700, 30}}>"
    call = f"y = com.microsoft.QGemm {attributes} (a, as, az, b, bs, bz, c{last})"
    model = applied("convert-qoperator", model_of(f"{head} {{ {call} }}"))
    feeds = feeds_of(model, 2)
    (expected,), (found,) = run(model_of(f"{head} {{ {call} }}"), feeds), run(model, feeds)
    tolerance = 1 if quantized else 1e-5 * np.abs(expected).max()
    assert np.abs(expected.astype(float) - found.astype(float)).max() <= tolerance


def test_signed_results_without_a_zero_point():
    text = 'g (int8[2,3] a) => (int8[2,3] y) <float s = {0.5}> { y = com.microsoft.QLinearSigmoid (a, s, "", s) }'
    # ONNX Runtime aborts where the zero point is left out.
    model = onnx_passes.apply(model_of(text), "convert-qoperator", verify=False).model
    a = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    assert np.array_equal(run(model, {"a": a})[0], np.rint(2 / (1 + np.exp(-0.5 * a))).astype(np.int8))


POOL = "y = com.microsoft.QLinearGlobalAveragePool <channels_last = {}> (x, xs, xz, ys, yz)"


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (f"g (uint8[1,4,4,2] x) => (uint8[1,1,1,2] y) <{ONE}> {{ {POOL.format(1)} }}", 17, "channels are last"),
        (
            f"g (uint8[1,2,4,4] x, float ws) => (uint8[1,4,4,4] y) <{ONE}, {weights('uint8', 0, 9, (4, 2, 3, 3))},"
            f"uint8 wz = {{0}}> {{ {CONV}) }}",
            17,
            "scale is not constant",
        ),
        (
            f"g (uint8[1,2,4,4] x) => (uint8[1,4,4,4] y) <{ONE}, {weights('uint8', 0, 9, (4, 2, 3, 3))},"
            f"float[4] ws = {{1, 2, 3, 4}}, uint8[4] wz = {{0, 0, 0, 0}}> {{ {CONV}) }}",
            12,
            "opset 13",
        ),
    ],
)
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("convert-qoperator", model_of(text, opset))


def test_results_that_others_read_too():
    text = (
        f"g (uint8[2,3] a, uint8[2,3] b) => (uint8[2,3] y, uint8[3,2] t) <{TWO}>"
        "{ y = com.microsoft.QLinearAdd (a, as, az, b, bs, bz, ys, yz) t = Transpose (y) }"
    )
    model: Any = applied("convert-qoperator", model_of(text))
    assert operators(model.graph)[-3:] == ["Add", "QuantizeLinear", "Transpose"]


def test_the_whole_way_to_quant():
    text = (
        f"g (float[2,6] x) => (float[2,6] y) <{ONE}, float t = {{0.01}}, uint8 o = {{0}}>"
        "{ a = QuantizeLinear (x, xs, xz) b = com.microsoft.QLinearSigmoid (a, xs, xz, t, o)"
        " c = com.microsoft.QLinearLeakyRelu (b, t, o, ys, yz) y = DequantizeLinear (c, ys, yz) }"
    )
    model = onnx_passes.apply(model_of(text), "import-quantized").model
    assert operators(model.graph) == ["Quant", "Clip", "Sigmoid", "Quant", "LeakyRelu", "Quant", "Clip"]
