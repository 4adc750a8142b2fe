"""What export-integer writes comes back as what streamline had made; other networks of integers as far as they go."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.graph.load import load
from tests.helpers.small_models import named
from tests.passes.export.tools import GENERAL, assert_same_bits, export, held, network, results, samples, types
from tests.passes.tools import model_of, operators

RNG = np.random.default_rng(0)


def weights(*shape: int, low: int = -8, high: int = 7) -> np.ndarray:
    return RNG.integers(low, high + 1, shape).astype(np.float32)


def there_and_back(model: ir.Model, target: str = "onnxruntime", *, size: float = 9) -> ir.Model:
    """Export and import a network, with the same bits at either end; returns it as it came back."""
    inputs = samples(model, size=size)
    expected = results(model, inputs)
    exported, _ = export(model, f"export-integer{{target={target}}}")
    assert_same_bits(exported, expected, inputs)
    back, _ = export(exported, "import-integer", verify=True)
    for found, wanted in zip(results(back, inputs), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    return back


BODIES = {
    "MatMul": ("float[2, 4] x", "b = MatMul (a, w)", (4, 3), ["MultiThreshold", "MatMul"]),
    "Conv": ("float[1, 3, 5, 5] x", "b = Conv <pads = [1, 1, 1, 1]> (a, w)", (4, 3, 3, 3), ["MultiThreshold", "Conv"]),
    "residual": (
        "float[2, 4] x",
        "p = MatMul (a, w)\nq = MatMul (a, w)\nb = Add (p, q)",
        (4, 3),
        ["MultiThreshold", "MatMul", "MatMul", "Add"],
    ),
    "pooling": (
        "float[1, 3, 6, 6] x",
        "p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)\nb = Conv (p, w)",
        (4, 3, 2, 2),
        ["MultiThreshold", "MaxPool", "Conv"],
    ),
}


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("ends", [(0, 1), (-8, 7), (0, 255), (-100, 100)])
def test_networks_come_back_as_they_were(name: str, ends: tuple[int, int], target: str):
    x, body, shape, expected = BODIES[name]
    steps = np.sort(weights(1, 15, low=-200, high=200))
    thresholds = f'c = {GENERAL}.MultiThreshold <out_dtype = "UINT4"> (b, t)'
    text = f"a = q({ends[0]}, {ends[1]}) x\n{body}\n{thresholds}\ny = Mul (c, s)"
    model = network(x, "float[A] y", text, {"w": weights(*shape), "t": steps, "s": [0.3]})
    model.graph.outputs[0].shape = None
    back = there_and_back(model, target, size=ends[1] + 2)
    assert operators(back.graph) == [*expected, "MultiThreshold", "Mul"]


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_thresholds_of_any_kind(data: st.DataObject):
    channels = data.draw(st.sampled_from([1, 3]))
    amount = data.draw(st.sampled_from([1, 2, 3, 7, 15, 40]))
    cells = st.floats(-40, 60, width=16)
    steps = np.array(data.draw(st.lists(cells, min_size=channels * amount, max_size=channels * amount)), np.float32)
    scale, bias = data.draw(st.sampled_from([1, 2, -1])), data.draw(st.sampled_from([0, -1, 5]))
    of_floats = data.draw(st.booleans())
    node = f'<out_dtype = "INT32", out_scale = {scale}.0, out_bias = {bias}.0, data_layout = "NCHW">'
    before = "" if of_floats else "a = q(-30, 30) x\nb = Add (a, a)\n"
    body = f"{before}y = {GENERAL}.MultiThreshold {node} ({'x' if of_floats else 'b'}, t)"
    model = network("float[2, 3, 4, 5] x", "float[2, 3, 4, 5] y", body, {"t": steps.reshape(channels, -1)})
    back = there_and_back(model, data.draw(st.sampled_from(["onnxruntime", "openvino"])), size=80)
    assert set(operators(back.graph)) <= {"MultiThreshold", "Add"}


def test_weights_in_parts_are_whole_again():
    model = network(
        "float[1, 2, 5, 5] x",
        "float[1, 3, 4, 4] y",
        "a = q(0, 15) x\ny = Conv (a, w)",
        {"w": weights(3, 2, 2, 2, low=-200, high=200)},
    )
    exported, _ = export(model)
    assert operators(exported.graph).count("ConvInteger") == 2
    assert operators(there_and_back(model).graph) == ["MultiThreshold", "Conv"]


def test_inputs_of_eight_bits_need_no_thresholds():
    constants = f"{held('w', weights(4, 3), 'int8')}, {held('v', weights(3, 3), 'int8')}, int32 t = {{20}}"
    text = f"""g (uint8[2, 4] x) => (float[2, 3] y) <{constants}, float s = {{0.5}}> {{
        a = MatMulInteger (x, w)
        b = GreaterOrEqual (a, t)
        c = Cast <to = 2> (b)
        d = MatMulInteger (c, v)
        e = Cast <to = 1> (d)
        y = Mul (e, s) }}"""
    back = onnx_passes.apply(model_of(text), "import-integer").model
    assert operators(back.graph) == ["Cast", "MatMul", "MultiThreshold", "MatMul", "Mul"]


def stays(body: str, constants: str, x: str = "float[2, 4] x", y: str = "float[2, 4] y") -> ir.Model:
    model = model_of(f"g ({x}) => ({y}) <{constants}> {{ {body} }}")
    result = onnx_passes.apply(model, "import-integer")
    assert operators(result.model.graph) == operators(model.graph)
    return result.model


def test_tables_that_are_read_by_more_than_a_growing_function_stay():
    table = held("t", RNG.integers(0, 9, 64), "uint8")
    body = "a = Mul (x, x) b = Min (a, m) c = Cast <to = 6> (b) d = Gather (t, c) y = Cast <to = 1> (d)"
    stays(body, f"{table}, float m = {{63.0}}")


def test_comparisons_of_what_is_computed_from_floats_stay():
    body = """a = Mul (x, s) b = GreaterOrEqual (a, h) c = GreaterOrEqual (x, h)
    d = Cast <to = 6> (b) e = Cast <to = 6> (c) f = Add (d, e) y = Cast <to = 1> (f)"""
    stays(body, "float s = {3.0}, float h = {1.0}")


def test_sums_that_floats_round_stay():
    large = held("w", np.full((2000, 3), 127), "int8")
    body = (
        "a = GreaterOrEqual (x, t) b = Where (a, h, z) c = MatMulInteger (b, w) d = Cast <to = 11> (c) y = Mul (d, s)"
    )
    constants = f"{large}, float t = {{0.5}}, uint8 h = {{255}}, uint8 z = {{0}}, double s = {{0.5}}"
    model = model_of(f"g (float[2, 2000] x) => (double[2, 3] y) <{constants}> {{ {body} }}")
    result = onnx_passes.apply(model, "import-integer")
    assert types(result.model, "MatMulInteger") == [("UINT8", "INT8")]
    assert any("floats round" in note for step in result.steps for note in step.notes)


def test_what_is_not_of_integers_stays():
    stays("a = Relu (x) y = Mul (a, a)", "float c = {1.0}")


STREAMLINED = (
    *("zoo/small_tfc_1w1a", "zoo/small_tfc_2w2a", "brevitas/small_residual", "brevitas/small_upsampled"),
    *("zoo/TFC_1W1A", "zoo/unsw_nb15-mlp-w2a2", "brevitas/resnet8_w4a4_fashion"),
    "brevitas/upsample_nearest_bilinear_w4a4",
)


@pytest.mark.parametrize("path", named(STREAMLINED), indirect=True)
def test_streamlined_networks_come_back(path: Path):
    first = onnx_passes.apply(load(path), "streamline", verify=False).model
    exported = onnx_passes.apply(first, "export-integer", verify=False).model
    second = onnx_passes.apply(exported, "streamline", verify=False).model
    assert Counter(operators(second.graph)) == Counter(operators(first.graph))
