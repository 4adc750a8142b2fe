"""Forms from which FINN builds layers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.tensor_types import datatype_of, layout_of
from tests.passes.export.test_export_finn import MT, by_operator, equal_after, steps, weights
from tests.passes.export.tools import network
from tests.passes.tools import operators


def pooled(body: str, result: str, **constants: np.ndarray) -> ir.Model:
    axes = "int64[2] pixels = {2, 3}, int64[1] others = {2}, float[4] twice = {1, 1, 2, 2}, int64[2] flat = {1, -1}"
    return network(
        "float[1, 2, 6, 6] x",
        f"float{result} y",
        f"a = q(-3, 4) x\n{body}",
        {"w": weights(3, 2, 3, 3), "t": steps(3, 7), "v": weights(3, 5), "s": [0.1], **constants},
        also=axes,
    )


def test_sums_of_all_pixels_are_a_layer():
    body = f"""b = Conv (a, w)
    c = {MT} <out_dtype = "UINT3"> (b, t)
    d = ReduceSum (c, pixels)
    e = Flatten (d)
    f = MatMul (e, v)
    y = Mul (f, s)"""
    exported, _ = equal_after(pooled(body, "[1, 5]"), "export-finn")
    assert operators(exported.graph)[2:] == [
        *("Im2Col", "MatMul", "MultiThreshold", "GlobalAccPool", "Reshape", "MatMul", "Mul")
    ]
    (pool,) = by_operator(exported, "GlobalAccPool")
    assert pool.domain == "finn.custom_op.fpgadataflow"
    assert {name: pool.attributes[name].value for name in pool.attributes} == {
        "NumChannels": 3,
        "PE": 1,
        "backend": "fpgadataflow",
        "inputDataType": "UINT3",
        "numInputVectors": (1, 4, 4),
    }
    assert str(datatype_of(pool.outputs[0])) == "UINT7"
    assert layout_of(pool.outputs[0]) == ("N", "H", "W", "C")


@pytest.mark.parametrize(("kept", "result"), [(1, "[1, 2, 1, 1]"), (0, "[1, 2]")])
def test_sums_of_images_with_channels_first_are_a_layer_too(kept: int, result: str):
    body = f"b = ReduceSum <keepdims = {kept}> (a, pixels)\ny = Mul (b, s)"
    exported, _ = equal_after(pooled(body, result), "export-finn")
    assert operators(exported.graph) == ["MultiThreshold", "Transpose", "GlobalAccPool", "Reshape", "Mul"]


NOT_SUMMED = {
    "along height and width": "y = ReduceSum (a, others)",
    "of floats": "b = Mul (a, s)\ny = ReduceSum (b, pixels)",
}


@pytest.mark.parametrize("kind", NOT_SUMMED)
def test_other_sums_stay(kind: str):
    exported, _ = equal_after(pooled(NOT_SUMMED[kind], "[A, B, C, D]"), "export-finn")
    assert "GlobalAccPool" not in operators(exported.graph)


@pytest.mark.parametrize(
    "how",
    [
        'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
        'coordinate_transformation_mode = "half_pixel"',
    ],
)
def test_pixels_are_repeated_by_a_layer(how: str):
    body = f"b = Conv (a, w)\nc = Resize <{how}> (b, , twice)\nd = Conv (c, u)\ny = Mul (d, s)"
    exported, _ = equal_after(pooled(body, "[1, 2, 8, 8]", u=weights(2, 3, 1, 1)), "export-finn")
    assert operators(exported.graph) == [
        *("MultiThreshold", "Transpose", "Im2Col", "MatMul", "UpsampleNearestNeighbour", "MatMul", "Mul", "Transpose")
    ]
    (layer,) = by_operator(exported, "UpsampleNearestNeighbour")
    assert [layer.attributes.get_int(name) for name in ("HI", "WI", "HO", "WO", "NumChannels")] == [4, 4, 8, 8, 3]


NOT_REPEATED = {
    "linear": 'mode = "linear"',
    "by other neighbours": 'coordinate_transformation_mode = "asymmetric", nearest_mode = "ceil"',
}


@pytest.mark.parametrize("kind", NOT_REPEATED)
def test_other_interpolation_stays(kind: str):
    body = f"b = Conv (a, w)\nc = Resize <{NOT_REPEATED[kind]}> (b, , twice)\ny = Mul (c, s)"
    exported, _ = equal_after(pooled(body, "[1, 3, 8, 8]"), "export-finn")
    assert "UpsampleNearestNeighbour" not in operators(exported.graph)


@pytest.mark.parametrize("move", ["Flatten (a)", "Reshape (a, flat)"])
def test_data_moves_in_front_of_the_thresholds_of_an_input(move: str):
    exported, _ = equal_after(
        pooled(f"b = {move}\nc = MatMul (b, m)\ny = Mul (c, s)", "[1, 4]", m=weights(72, 4)), "export-finn"
    )
    assert operators(exported.graph) == [move.split()[0], "MultiThreshold", "MatMul", "Mul"]
    (thresholds,) = by_operator(exported, "MultiThreshold")
    assert thresholds.attributes.get_string("data_layout") == "NC"


def test_data_stays_behind_thresholds_of_channels():
    body = f"""b = {MT} <out_dtype = "UINT3", data_layout = "NCHW"> (x, k)
    c = Flatten (b)
    d = MatMul (c, m)
    y = Mul (d, s)"""
    exported, _ = equal_after(pooled(body, "[1, 4]", m=weights(72, 4), k=steps(2, 7)), "export-finn")
    assert operators(exported.graph)[0] == "MultiThreshold"


def test_sums_that_several_use_are_no_layer_with_thresholds():
    """FINN would make one layer of a product and the first thresholds behind it, and leave the others without sums."""
    body = f"""b = Flatten (x)
    c = q(-3, 4) b
    d = MatMul (c, m)
    e = {MT} <out_dtype = "UINT3"> (d, k)
    f = {MT} <out_dtype = "UINT3"> (d, l)
    g = Sub (e, f)
    y = Mul (g, s)"""
    model = pooled(body, "[1, 4]", m=weights(72, 4), k=steps(4, 7), l=steps(4, 5))
    exported, _ = equal_after(model, "export-finn")
    (product,) = by_operator(exported, "MatMul")
    assert [user.op_type for user, _ in product.outputs[0].uses()] == ["Add"]
    assert {user.op_type for user, _ in by_operator(exported, "Add")[0].outputs[0].uses()} == {"MultiThreshold"}
    assert equal_after(exported, "export-finn")[0].graph.num_nodes() == exported.graph.num_nodes()


TRANSPOSED = {
    "kernel as large as the stride": ((2, 2), "strides = [2, 2]", "[1, 3, 12, 12]"),
    "overlapping": ((3, 4), "strides = [2, 2], pads = [1, 1, 0, 1]", "[1, 3, 12, 12]"),
    "with more at the end": (
        (3, 3),
        "strides = [3, 2], pads = [0, 1, 0, 1], output_padding = [0, 1]",
        "[1, 3, 18, 12]",
    ),
    "without a stride": ((3, 3), "pads = [1, 1, 1, 1]", "[1, 3, 6, 6]"),
    "sparse": ((2, 2), "strides = [3, 3], output_padding = [1, 1]", "[1, 3, 18, 18]"),
}


@pytest.mark.parametrize("biased", ["", ", k"])
@pytest.mark.parametrize("kind", TRANSPOSED)
def test_transposed_convolutions_make_patches(kind: str, biased: str):
    kernel, how, result = TRANSPOSED[kind]
    body = f"b = ConvTranspose <{how}> (a, u{biased})\ny = Mul (b, s)"
    exported, _ = equal_after(pooled(body, result, u=weights(2, 3, *kernel), k=weights(3)), "export-finn")
    assert "ConvTranspose" not in operators(exported.graph)
    assert [name for name in operators(exported.graph) if name != "Im2Col"] == [
        *("MultiThreshold", "Transpose", "MatMul", "Reshape", "Transpose", "Reshape"),
        *(["Add"] if biased else []),
        *("Mul", "Transpose"),
    ]


STAYING = {
    "it has groups or dilations": "strides = [2, 2], dilations = [2, 2], output_padding = [1, 1]",
    "not a multiple of the strides": "strides = [2, 2]",
    "larger than its kernel": "strides = [2, 2], pads = [5, 5, 4, 4]",
}


@pytest.mark.parametrize("reason", STAYING)
def test_transposed_convolutions_that_stay_are_named(reason: str):
    body = f"b = ConvTranspose <{STAYING[reason]}> (a, u)\ny = Mul (b, s)"
    exported, notes = equal_after(pooled(body, "[A, B, C, D]", u=weights(2, 3, 3, 3)), "export-finn")
    assert "ConvTranspose" in operators(exported.graph)
    assert any(reason in note for note in notes)


def sequence(body: str, result: str = "[1, 5, 4]", **constants: np.ndarray) -> ir.Model:
    return network(
        "float[1, 5, 6] x",
        f"float{result} y",
        f"a = q(-3, 4) x\nb = MatMul (a, w)\n{body}",
        {"w": weights(6, 8), "t": steps(8, 7), "v": weights(8, 4), "e": weights(5, 8), "s": [0.1], **constants},
        also="int64[1] zero = {0}, int64[1] half = {4}, int64[1] all = {8}, int64[1] last = {-1}, "
        "int64[1] along = {1}, int64[4] heads = {1, 5, 2, 4}, int64[3] joined = {1, 5, 8}",
    )


STEPS = f'c = {MT} <out_dtype = "UINT3", data_layout = "NWC"> (b, t)'
SEQUENCES = {
    "thresholds of channels": f"{STEPS}\nd = MatMul (c, v)\ny = Mul (d, s)",
    "joined with constants": f"{STEPS}\nd = Add (c, e)\nf = MatMul (d, v)\ny = Mul (f, s)",
    "turned": f"{STEPS}\nd = Transpose <perm = [0, 2, 1]> (c)\nf = MatMul (c, d)\ng = Softmax (f)\ny = Mul (g, s)",
    "with heads": f"""{STEPS}
    d = Reshape (c, heads)
    f = Transpose <perm = [0, 2, 1, 3]> (d)
    g = Mul (f, s)
    h = Transpose <perm = [0, 2, 1, 3]> (g)
    y = Reshape (h, joined)""",
    "added up": f"{STEPS}\nd = ReduceSum <keepdims = 0> (c, along)\nf = MatMul (d, v)\ny = Mul (f, s)",
    "joined along channels": f"{STEPS}\nd = Concat <axis = 2> (c, a)\ny = Mul (d, s)",
}


@pytest.mark.parametrize("kind", SEQUENCES)
def test_sequences_are_images_of_one_row(kind: str):
    """FINN has thresholds that differ from channel to channel for two or four axes."""
    exported, notes = equal_after(
        sequence(SEQUENCES[kind], "[A, B, C]" if kind != "added up" else "[1, 4]"), "export-finn"
    )
    thresholds = by_operator(exported, "MultiThreshold")
    assert [node.attributes.get_string("data_layout") for node in thresholds] == ["NHWC"] * len(thresholds)
    assert operators(exported.graph)[0] == "Reshape"
    assert not [note for note in notes if "splits the hardware" in note]
    assert ("GlobalAccPool" in operators(exported.graph)) == (kind == "added up")


def test_sequences_with_the_same_thresholds_for_all_channels_stay():
    exported, _ = equal_after(sequence("c = MatMul (b, v)\ny = Mul (c, s)"), "export-finn")
    assert operators(exported.graph) == ["MultiThreshold", "MatMul", "MatMul", "Mul"]


def test_columns_that_are_chosen_are_all_that_is_computed():
    body = f"""c = Slice (b, zero, half, last)
    d = Slice (b, half, all, last)
    f = {MT} <out_dtype = "UINT3"> (c, k)
    g = Sub (f, d)
    y = Mul (g, s)"""
    exported, _ = equal_after(sequence(body, k=steps(1, 7)), "export-finn")
    assert operators(exported.graph).count("MatMul") == 2
    assert "Slice" not in operators(exported.graph)


def test_parts_have_sizes():
    body = "c, d = Split <axis = 2, num_outputs = 2> (b)\nf = Sub (c, d)\ny = Mul (f, s)"
    exported, _ = equal_after(sequence(body), "export-finn")
    (split,) = by_operator(exported, "Split")
    sizes = split.inputs[1]
    assert sizes is not None
    assert sizes.const_value is not None
    assert sizes.const_value.numpy().tolist() == [4, 4]


def test_reshapes_between_layers_are_carried_by_a_transposition():
    body = "c = Reshape (b, heads)\nd = MatMul (c, u)\ny = Mul (d, s)"
    exported, notes = equal_after(sequence(body, "[1, 5, 2, 3]", u=weights(4, 3)), "export-finn")
    assert operators(exported.graph)[2:4] == ["Transpose", "Reshape"]
    assert not [note for note in notes if "hardware" in note]
    assert equal_after(exported, "export-finn")[0].graph.num_nodes() == exported.graph.num_nodes()


def test_thresholds_of_images_with_one_channel_have_one_layout():
    body = f"""b = q(-3, 4) x
    c = Conv (b, k)
    y = {MT} <out_dtype = "UINT3"> (c, t)"""
    constants = {"k": weights(3, 1, 3, 3), "t": steps(3, 7)}
    exported, _ = equal_after(network("float[1, 1, 6, 6] x", "float[1, 3, 4, 4] y", body, constants), "export-finn")
    first = by_operator(exported, "MultiThreshold")[0]
    assert first.inputs[0] is not None
    assert layout_of(first.inputs[0]) == layout_of(first.outputs[0]) is not None
