from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.core.errors import PassFailedError
from onnx_passes.graph.load import load
from onnx_passes.passes.export.export_integer import ExportInteger, before_rounding
from tests.helpers.small_models import named
from tests.passes.export.tools import (
    GENERAL,
    OURS,
    assert_same_bits,
    export,
    exported_alike,
    held,
    integers,
    network,
    results,
    samples,
    types,
)
from tests.passes.tools import apply, model_of, operators

RNG = np.random.default_rng(0)


def weights(*shape: int, low: int = -8, high: int = 7) -> np.ndarray:
    return RNG.integers(low, high + 1, shape).astype(np.float32)


def test_products_are_of_eight_bits_and_the_end_is_scaled_in_floats():
    model = network(
        "float[2, 4] x",
        "float[2, 3] y",
        "a = q(-2, 1) x\nb = MatMul (a, w)\ny = Mul (b, s)",
        {"w": weights(4, 3), "s": [0.3]},
    )
    exported, notes = exported_alike(model, size=3)
    assert types(exported, "MatMulInteger") == [("INT8", "INT8")]
    assert operators(exported.graph)[-2:] == ["Cast", "Mul"]
    assert notes == []
    assert apply(ExportInteger(), exported) is False


def test_verification_agrees():
    body, constants = "a = q(-2, 1) x\nb = MatMul (a, w)\ny = Mul (b, s)", {"w": weights(4, 3), "s": [0.3]}
    model = network("float[2, 4] x", "float[2, 3] y", body, constants)
    assert "MatMulInteger" in operators(export(model, verify=True)[0].graph)


def test_unsigned_times_signed_does_not_saturate():
    model = network(
        "float[2, 64] x",
        "float[2, 3] y",
        "a = q(0, 255) x\nb = MatMul (a, w)\ny = Identity (b)",
        {"w": np.where(RNG.random((64, 3)) < 0.9, 127, -127).astype(np.float32)},
    )
    exported, _ = exported_alike(model)
    assert types(exported, "MatMulInteger") == [("UINT8", "UINT8", "UINT8", "UINT8")]


def test_products_of_two_activations_that_would_saturate_are_of_32_bits():
    model = network(
        "float[2, 3, 8] x, float[2, 8, 3] z",
        "float[2, 3, 3] y",
        "a = q(0, 255) x\nb = q(-128, 127) z\ny = MatMul (a, b)",
        {},
    )
    exported, _ = exported_alike(model)
    assert types(exported, "MatMul") == [("INT32", "INT32")]


def test_wide_matrices_are_of_32_bits():
    model = network(
        "float[2, 4] x",
        "float[2, 3] y",
        "a = q(-300, 300) x\ny = MatMul (a, w)",
        {"w": weights(4, 3, low=-999, high=999)},
    )
    exported, _ = exported_alike(model)
    assert types(exported, "MatMul") == [("INT32", "INT32")]


def test_sums_that_floats_may_round_stay_in_floats():
    model = network(
        "float[1, 512] x",
        "float[1, 2] y",
        "a = q(-255, 255) x\ny = MatMul (a, w)",
        {"w": weights(512, 2, low=-999, high=999)},
    )
    exported, notes = exported_alike(model)
    assert types(exported, "MatMul") == [("FLOAT", "FLOAT")]
    assert any("stays in floats: its sums may exceed the integers that floats hold" in note for note in notes)


def test_einsum_is_of_32_bits():
    model = network(
        "float[2, 3, 4] x",
        "float[2, 3, 5] y",
        'a = q(-8, 7) x\ny = Einsum <equation = "bij,jk->bik"> (a, w)',
        {"w": weights(4, 5)},
    )
    exported, notes = exported_alike(model)
    assert types(exported, "Einsum") == [("INT32", "INT32")]
    assert notes == []


@pytest.mark.parametrize(("more", "kind"), [(0.0, "MatMulInteger"), (1.0, "MatMul")])
def test_floats_hold_sums_up_to_two_to_the_24th(more: float, kind: str):
    """A sum of 1024 products of 128 and 128 is 2**24."""
    filters = np.array([128.0] * 1024 + [more], np.float32)[:, None]
    model = network("float[1, 1025] x", "float[1, 1] y", "a = q(0, 128) x\ny = MatMul (a, w)", {"w": filters})
    exported, notes = exported_alike(model)
    assert kind in operators(exported.graph)
    assert bool(notes) == (more > 0)


CONVS = {
    "plain": ("float[1, 3, 6, 6] x", "", (4, 3, 3, 3)),
    "padded": ("float[1, 3, 6, 6] x", "<pads = [1, 0, 2, 1], strides = [2, 1], dilations = [1, 2]>", (4, 3, 3, 3)),
    "same": ("float[1, 3, 6, 6] x", '<auto_pad = "SAME_UPPER">', (4, 3, 3, 3)),
    "depthwise": ("float[1, 3, 6, 6] x", "<group = 3, pads = [1, 1, 1, 1]>", (6, 1, 3, 3)),
    "sequence": ("float[2, 3, 9] x", "<pads = [1, 1]>", (4, 3, 3)),
    "volume": ("float[1, 2, 4, 4, 4] x", "", (2, 2, 2, 2, 2)),
}


@pytest.mark.parametrize("kind", CONVS)
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-33, 222)])
def test_convolutions(kind: str, low: int, high: int):
    x, attributes, shape = CONVS[kind]
    axes = len(shape)
    model = network(
        x,
        f"float[{', '.join('N' * axes)}] y".replace("N, N", "N, M", 1),
        f"a = q({low}, {high}) x\nb = Conv {attributes} (a, w, c)\ny = Mul (b, s)",
        {"w": weights(*shape, low=-127, high=127), "c": weights(shape[0], low=-999, high=999), "s": [0.1]},
    )
    model.graph.outputs[0].shape = None
    exported, _ = exported_alike(model)
    assert "Conv" not in operators(exported.graph)
    zero_point = ["UINT8"] if low == -33 else []
    assert types(exported, "ConvInteger") == [("INT8" if low == -128 else "UINT8", "INT8", *zero_point)]


def test_filters_of_nine_bits_are_the_sum_of_two():
    filters = weights(4, 3, 3, 3, low=-256, high=254)
    model = network("float[1, 3, 5, 5] x", "float[1, 4, 3, 3] y", "a = q(0, 15) x\ny = Conv (a, w)", {"w": filters})
    exported, _ = exported_alike(model, size=20)
    assert types(exported, "ConvInteger") == [("UINT8", "INT8")] * 2


@pytest.mark.parametrize(("low", "kinds"), [(-64, [("INT8", "UINT8")]), (-65, [("INT8", "INT8")] * 3)])
def test_unsigned_filters_that_would_saturate_are_the_sum_of_three(low: int, kinds: list[tuple[str, str]]):
    """Pairs of products of 255 and -64 are within 16 bits, those of 255 and -65 are not."""
    filters = np.full((2, 3, 3, 3), 255.0, np.float32)
    model = network(
        "float[1, 3, 5, 5] x", "float[1, 2, 3, 3] y", f"a = q({low}, 63) x\ny = Conv (a, w)", {"w": filters}
    )
    exported, notes = exported_alike(model)
    assert types(exported, "ConvInteger") == kinds
    assert notes == []


def test_convolutions_of_wide_integers_stay_in_floats_and_are_named():
    model = network(
        "float[1, 1, 5, 5] x",
        "float[1, 1, 3, 3] y",
        "a = q(-200, 200) x\n[it] y = Conv (a, w)",
        {"w": weights(1, 1, 3, 3)},
    )
    _, notes = exported_alike(model)
    assert notes == ["Conv 'it' stays in floats: no runtime convolves integers of more than eight bits"]


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "<strides = [2, 2]>",
        "<strides = [2, 3], pads = [1, 0, 1, 1]>",
        "<strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]>",
        "<strides = [3, 1], dilations = [2, 1]>",
        "<strides = [2, 2], group = 2>",
        "<strides = [4, 4]>",
        "<strides = [3, 2]>",
        "<strides = [4, 3], dilations = [3, 2], output_padding = [2, 1]>",
        "<pads = [3, 0, 0, 0]>",
        "<strides = [2, 2], pads = [3, 0, 3, 5]>",
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions_become_convolutions(attributes: str, bias: bool):
    depth = 1 if "group" in attributes else 2
    model = network(
        "float[2, 4, 3, 5] x",
        "float[A, B, C, D] y",
        f"a = q(-8, 7) x\ny = ConvTranspose {attributes} (a, w{', b' * bias})",
        {"w": weights(4, depth, 3, 2), **({"b": weights(2)} if bias else {})},
    )
    exported, _ = exported_alike(model, size=9)
    assert "ConvTranspose" not in operators(exported.graph)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_transposed_convolutions_with_strides_take_as_many_products_as_before(dims: int, kernel: int):
    shape = ", ".join(["5"] * dims)
    model = network(
        f"float[1, 4, {shape}] x",
        "float[A] y",
        f"a = q(-8, 7) x\ny = ConvTranspose <strides = {[2] * dims}> (a, w)",
        {"w": weights(4, 3, *[kernel] * dims)},
    )
    model.graph.outputs[0].shape = None
    exported, _ = exported_alike(model, size=9)
    assert set(operators(exported.graph)) & {"ConvTranspose", "ConvInteger"} == {"ConvInteger"}
    assert onnx_passes.inspect(exported).cost.macs == 4 * 3 * (5 * kernel) ** dims


@pytest.mark.parametrize("attributes", ['<auto_pad = "SAME_UPPER">', "<output_shape = [4, 6]>"])
def test_transposed_convolutions_that_leave_padding_open_stay_in_floats(attributes: str):
    model = network(
        "float[1, 1, 4, 5] x",
        "float[A, B, C, D] y",
        f"a = q(-8, 7) x\ny = ConvTranspose {attributes} (a, w)",
        {"w": weights(1, 1, 3, 2)},
    )
    exported, notes = exported_alike(model, size=9)
    assert "ConvTranspose" in operators(exported.graph)
    assert "stays in floats" in notes[0]


MOVES = {
    "MaxPool": "y = MaxPool <kernel_shape = [2, 2], pads = [1, 0, 0, 1]> (a)",
    "Concat": "b = q(0, 255) x\ny = Concat <axis = 1> (a, b)",
    "Concat with a constant": "y = Concat <axis = 1> (a, k)",
    "Add": "b = q(-300, 2) x\ny = Add (a, b)",
    "Sub": "b = q(-300, 2) x\ny = Sub (a, b)",
    "Mul": "b = q(1, 9) x\ny = Mul (b, b)",
    "Relu": "y = Relu (a)",
    "ReduceSum": "y = ReduceSum <keepdims = 0> (a, axes)",
    "Pad": "y = Pad (a, pads, c)",
    "Pad of some axes": "y = Pad (a, some, c, axes)",
    "Resize": 'y = Resize <mode = "nearest"> (a, , scales)',
    "Transpose": "y = Transpose <perm = [0, 2, 3, 1]> (a)",
    "Flatten": "y = Flatten (a)",
    "Slice": "y = Slice (a, axes, ends, axes)",
}


@pytest.mark.parametrize("kind", MOVES)
def test_elementwise_and_movements(kind: str):
    indices = [
        held("axes", [1, 2], "int64"),
        held("ends", [2, 4], "int64"),
        held("some", [1, 0, 0, 2], "int64"),
        held("pads", [0, 0, 1, 0, 0, 1, 0, 2], "int64"),
    ]
    model = network(
        "float[1, 3, 4, 4] x",
        "float[A] y",
        f"a = q(-7, 7) x\n{MOVES[kind]}",
        {"k": weights(1, 1, 4, 4, high=200), "c": np.array(-3.0), "scales": [1.0, 1.0, 2.0, 2.0]},
        also=", ".join(indices),
    )
    model.graph.outputs[0].shape = None
    exported, notes = exported_alike(model)
    last = exported.graph[-1]
    assert last.op_type == "Cast"
    assert last.inputs[0] is not None
    assert last.inputs[0].dtype is not None
    assert last.inputs[0].dtype.is_integer()
    assert notes == []
    assert all(len(node.inputs) <= 3 for node in exported.graph if node.op_type == "Pad")


def test_zeros_that_may_get_a_sign_stay_floats():
    model = network("float[4] x", "float[4] y", "a = q(-7, 7) x\ny = Mul (a, m)", {"m": [-1.0]})
    exported, _ = exported_alike(model, size=9)
    assert exported.graph[-1].op_type == "Mul"
    assert types(exported, "Mul")[-1] == ("FLOAT", "FLOAT")


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_thresholds_of_integers(data: st.DataObject):
    low = data.draw(st.integers(-40, 0))
    high = data.draw(st.integers(low + 1, 60))
    channels = data.draw(st.sampled_from([1, 3]))
    amount = data.draw(st.sampled_from([1, 2, 3, 7, 15, 40]))
    cells = st.floats(low - 3, high + 3, width=16) | st.sampled_from([np.inf, -np.inf])
    steps = np.array(data.draw(st.lists(cells, min_size=channels * amount, max_size=channels * amount)), np.float32)
    scale, bias = data.draw(st.sampled_from([1, 2, -1])), data.draw(st.sampled_from([0, -1, 5]))
    layout = data.draw(st.sampled_from(["NCHW", "NHWC"]))
    shape = "3, 2, 4" if layout == "NCHW" else "2, 4, 3"
    node = f'<out_dtype = "INT32", out_scale = {scale}.0, out_bias = {bias}.0, data_layout = "{layout}">'
    _assert_all_levels(
        shape, low, high, f"y = {GENERAL}.MultiThreshold {node} (b, t)", {"t": steps.reshape(channels, -1)}
    )


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_thresholds_with_weights(data: st.DataObject):
    shape = data.draw(st.sampled_from([(5,), (3, 1, 1, 6), (2, 4, 20), (3, 1, 1, 30)]))
    size = int(np.prod(shape))
    steps = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size)), np.float32).reshape(shape)
    jumps = np.array(data.draw(st.lists(st.integers(-3, 300), min_size=size, max_size=size)), np.float32).reshape(shape)
    body = f"y = {OURS}.MultiThreshold <out_bias = -2.0> (b, t, j)"
    _assert_all_levels("3, 2, 4", -8, 8, body, {"t": steps, "j": jumps})


def _assert_all_levels(
    image: str, low: int, high: int, body: str, constants: dict[str, np.ndarray | list[float]]
) -> None:
    """Run every integer of a range at every place of an image."""
    dims = [high - low + 1, *map(int, image.split(","))]
    shape = ", ".join(map(str, dims))
    text = f"a = q({low}, {high}) x\nb = Add (a, o)\n{body}"
    model = network(f"float[{shape}] x", f"float[{shape}] y", text, {**constants, "o": [0.0]})
    numbers = np.arange(low, high + 1, dtype=np.float32).reshape(-1, 1, 1, 1)
    inputs = [{"x": np.ascontiguousarray(np.broadcast_to(numbers, dims))}]
    expected = results(model, inputs)
    exported = onnx_passes.apply(model, "export-integer", verify=False).model
    assert_same_bits(exported, expected, inputs, optimized=False)


def test_floats_are_compared_as_they_are():
    special = np.array(
        [[np.nan, np.inf, -np.inf, -0.0, 0.5, np.nextafter(np.float32(0.5), np.float32(0), dtype=np.float32)]],
        np.float32,
    )
    for low, high in ((0, 1), (-3, 4), (-128, 127)):
        model = network("float[1, 6] x", "float[1, 6] y", f"y = q({low}, {high}) x", {})
        inputs = [{"x": special}]
        exported = ExportInteger().call(network("float[1, 6] x", "float[1, 6] y", f"y = q({low}, {high}) x", {})).model
        assert_same_bits(exported, results(model, inputs), inputs)


def test_tables_are_used_where_they_are_small_and_searches_elsewhere():
    def body(low: int, high: int) -> ir.Model:
        steps = integers(low, high)[:, :: (high - low) // 20]
        text = f'a = q({low}, {high}) x\ny = {GENERAL}.MultiThreshold <out_dtype = "UINT8", data_layout = "NC"> (a, t)'
        return network("float[2, 5] x", "float[2, 5] y", text, {"t": steps})

    small, _ = exported_alike(body(-50, 50))
    large, _ = exported_alike(body(-5000, 5000), size=6000)
    assert operators(small.graph).count("Gather") < operators(large.graph).count("Gather")


def test_bodies_of_other_nodes_get_floats():
    model = network(
        "float[2, 4] x, bool c",
        "float[2, 3] y",
        "a = q(-2, 1) x\nb = MatMul (a, w)\n"
        "y = If (c) <then_branch = t () => (float[2, 3] p) { p = Neg (b) }, "
        "else_branch = e () => (float[2, 3] r) { r = Abs (b) }>",
        {"w": weights(4, 3)},
    )
    inputs = [{"x": samples(model)[3]["x"], "c": np.array(chosen)} for chosen in (True, False)]
    expected = results(model, inputs)
    exported, _ = export(model)
    assert_same_bits(exported, expected, inputs)
    assert operators(exported.graph).count("MatMulInteger") == 1


def test_other_types_than_float_keep_their_results():
    model = model_of(
        f"""g (double[2, 3] x) => (double[2, 3] y) <{held("t", [[0.5, 1.5]], "double")}>
        {{ y = {GENERAL}.MultiThreshold <out_dtype = "UINT2"> (x, t) }}""",
        domains=f'"{GENERAL}" : 1',
    )
    inputs = [{"x": np.array([[0, 0.5, 1], [1.5, 2, -1]])}]
    expected = results(model, inputs)
    exported, _ = export(model)
    assert_same_bits(exported, expected, inputs)


def test_old_opsets_are_raised():
    model = network(
        "float[2, 4] x", "float[2, 3] y", "a = q(-2, 1) x\ny = MatMul (a, w)", {"w": weights(4, 3)}, opset=11
    )
    exported, notes = exported_alike(model, size=3)
    assert exported.opset_imports == {"": 13}
    assert notes == ["opset 11 became 13, in which operators accept integers"]


def test_refuses_operators_that_are_not_defined():
    model = model_of("g (float[2] x) => (float[2] y) { [it] y = other.Thing (x) }", domains='"other" : 1')
    with pytest.raises(PassFailedError, match="no equivalent standard operators") as caught:
        ExportInteger().call(model)
    assert "it" in str(caught.value)


def test_models_without_integers_stay_as_they_are():
    model = model_of("g (float[2, 2] x) => (float[2, 2] y) { y = MatMul (x, x) }")
    assert apply(ExportInteger(), model) is False


QUICK = (
    *("zoo/small_tfc_1w1a", "zoo/small_tfc_2w2a", "zoo/small_keywords", "brevitas/small_cnv"),
    *("brevitas/small_separable", "brevitas/small_residual", "brevitas/small_unet"),
    *("zoo/TFC_1W1A", "zoo/unsw_nb15-mlp-w2a2", "brevitas/dwsep_cnn_w4a4_fashion"),
    "brevitas/unet_convtranspose_w4a4",
)


@pytest.mark.parametrize("path", named(QUICK), indirect=True)
def test_streamlined_networks_give_the_same_bits(path: Path):
    model = onnx_passes.apply(load(path), "streamline", verify=False).model
    _compare_streamlined(model, path)


def _compare_streamlined(model: ir.Model, path: Path) -> None:
    data = np.load(path.with_suffix(".npz"))
    inputs = [{key[len("in_b1__") :]: array for key, array in data.items() if key.startswith("in_b1__")}]
    if "unsw" not in path.name:
        inputs += samples(model, 4, size=2)
    expected = results(model, inputs)
    exported = onnx_passes.apply(model, "export-integer", verify=False).model
    assert_same_bits(exported, expected, inputs)
    products = [node for node in exported.graph if node.op_type in ("Conv", "ConvTranspose", "MatMul")]
    assert not [node for node in products if node.inputs[0] is not None and node.inputs[0].dtype is ir.DataType.FLOAT]


@pytest.mark.parametrize("around", [0, 1000, 2**23, 2**24, 2**25, 2**28])
@pytest.mark.parametrize("sign", [1, -1])
def test_thresholds_of_rounded_integers_are_those_of_integers(around: int, sign: int):
    integers = np.arange(sign * around - 40, sign * around + 40)
    floats = np.unique(np.concatenate([integers.astype(np.float32), integers.astype(np.float32) + np.float32(0.37)]))
    rounded = integers.astype(np.float32)
    for threshold, least in zip(floats, before_rounding(floats), strict=True):
        np.testing.assert_array_equal(integers >= least, rounded >= threshold)


WIDE = {
    "MatMul": ("float[2, 1400] x", "b = MatMul (q, v)", (1400, 3), "MatMulInteger", 1),
    "Conv": (
        "float[1, 320, 5, 5] x",
        "b = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (q, v)",
        (3, 320, 3, 3),
        "ConvInteger",
        1,
    ),
    "ConvTranspose": ("float[1, 320, 3, 3] x", "b = ConvTranspose (q, v)", (320, 3, 3, 3), "ConvInteger", 2),
}


def wide_layer(name: str, low: int) -> tuple[ir.Model, list[dict[str, np.ndarray]], list[list[np.ndarray]]]:
    """Streamline a layer of eight bits whose sums are doubles; returns samples and results, too."""
    x, node, shape, _, _ = WIDE[name]
    filters = np.where(RNG.random(shape) < 0.9, 127, -50).astype(np.float32)
    quant = f"{GENERAL}.Quant <signed = {int(low < 0)}, narrow = 0>"
    body = f"""q = {quant} (x, s, zero, bits)
    v = {GENERAL}.Quant <signed = 1, narrow = 1> (w, t, zero, bits)
    {node}
    c = {GENERAL}.Quant <signed = 1, narrow = 0> (b, u, zero, bits)
    y = Mul (c, t)
    z = Mul (b, t)"""
    constants = {"w": filters * 0.25, "s": [0.3], "t": [0.25], "u": [20000.0], "zero": [0.0], "bits": [8.0]}
    model = network(x, "float[A, B, C, D] y, float[A, B, C, D] z", body, constants)
    for value in model.graph.outputs:
        value.shape = None
    streamed = onnx_passes.apply(model, "streamline", verify=False).model
    inputs = [
        {"x": RNG.integers(low, 128 if low else 256, sample["x"].shape).astype(np.float32) * np.float32(0.3)}
        for sample in samples(streamed, 3)
    ] + [{"x": np.full_like(sample["x"], 1e4)} for sample in samples(streamed, 1)]
    expected = results(streamed, inputs)
    assert max(np.abs(wanted[1]).max() / 0.0625 / 0.3 for wanted in expected) > 2**24
    return streamed, inputs, expected


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("low", [0, -127])
def test_sums_beyond_floats_are_held_in_32_bits(name: str, low: int):
    """From a layer of eight bits, over doubles, to integers: thresholds and outputs stay the same bit by bit."""
    streamed, inputs, expected = wide_layer(name, low)
    operator, amount = WIDE[name][3:]
    exported, notes = export(streamed)
    assert_same_bits(exported, expected, inputs)
    assert operators(exported.graph).count(operator) == amount
    assert not {"Conv", "MatMul", "ConvTranspose"} & set(operators(exported.graph))
    assert not [value for node in exported.graph for value in node.outputs if value.dtype is ir.DataType.DOUBLE]
    assert notes == []
