from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.errors import PassFailedError
from onnx_passes.datatypes import BIPOLAR
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.load import load
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.tensor_types import datatype_of, layout_of, set_datatype, sparsity_of
from onnx_passes.passes.export import bipolar
from onnx_passes.passes.export.export_finn import ExportFinn
from onnx_passes.verify.failure import PostconditionError
from tests.helpers.small_models import named
from tests.passes.export.tools import GENERAL, OURS, export, network, results, samples
from tests.passes.tools import apply, operators

RNG = np.random.default_rng(0)
MT = f"{GENERAL}.MultiThreshold"
LOWERED = "export-finn"
PLAIN = "export-finn{lower-convs=false}"


def weights(*shape: int, low: int = -2, high: int = 1) -> np.ndarray:
    return RNG.integers(low, high + 1, shape).astype(np.float32)


def signs(*shape: int) -> np.ndarray:
    return np.where(RNG.random(shape) < 0.5, -1, 1).astype(np.float32)


def steps(channels: int, amount: int, size: int = 9) -> np.ndarray:
    return np.sort(RNG.integers(-size, size, (channels, amount)).astype(np.float32) + np.float32(0.3), axis=1)


def small_cnn() -> ir.Model:
    return network(
        "float[1, 2, 8, 8] x",
        "float[1, 5] y",
        f"""
        a = q(-3, 4) x
        b = Conv <pads = [1, 1, 1, 1]> (a, w1)
        c = {MT} <out_dtype = "TERNARY", out_bias = -1.0> (b, t1)
        d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        e = Conv <group = 4> (d, w2)
        f = {MT} <out_dtype = "UINT2"> (e, t2)
        h = Conv (f, w3)
        i = {MT} <out_dtype = "UINT2"> (h, t3)
        j = Flatten (i)
        k = MatMul (j, w4)
        y = Mul (k, s)
        """,
        {
            "w1": weights(4, 2, 3, 3),
            "w2": weights(4, 1, 4, 4),
            "w3": weights(6, 4, 1, 1),
            "w4": weights(6, 5),
            "t1": steps(4, 2),
            "t2": steps(4, 3),
            "t3": steps(6, 3),
            "s": [0.1],
        },
    )


def equal_after(model: ir.Model, pipeline: str, *, size: float = 6) -> tuple[ir.Model, list[str]]:
    """Export, and hold results to those before, bit by bit, and tensors to their data types."""
    inputs = samples(model, size=size)
    expected = results(model, inputs)
    exported, notes = export(model, pipeline)
    for found, wanted in zip(results(exported, inputs), expected, strict=True):
        assert [array.tobytes() for array in found] == [array.tobytes() for array in wanted]
    onnx_passes.apply(exported, "check-datatypes", verify=False)
    return exported, notes


def by_operator(model: ir.Model, operator: str) -> list[ir.Node]:
    return [node for node in model.graph if node.op_type == operator]


def test_integers_have_the_least_types():
    exported, _ = equal_after(small_cnn(), PLAIN)
    first, second = (by_operator(exported, "Conv")[index] for index in (0, 1))
    found = [str(datatype_of(value)) for value in (*first.inputs, *first.outputs) if value is not None]
    assert found[:2] == ["INT4", "INT2"]
    assert found[2].startswith("INT")
    assert int(found[2][3:]) <= 8
    assert str(datatype_of(second.inputs[0])) == "INT2"  # pyright: ignore[reportArgumentType]
    assert by_operator(exported, "MultiThreshold")[1].attributes.get_string("out_dtype") == "INT2"
    last = exported.graph[-1].outputs[0]
    assert datatype_of(last) is None or not datatype_of(last).is_integer  # type: ignore[union-attr]


def test_thresholds_are_integers_of_a_type_that_holds_what_is_compared():
    exported, _ = equal_after(small_cnn(), PLAIN)
    for node in by_operator(exported, "MultiThreshold")[1:]:
        x, thresholds = node.inputs
        assert x is not None
        assert thresholds is not None
        held, own, other = constant(thresholds), datatype_of(thresholds), datatype_of(x)
        assert held is not None
        assert own is not None
        assert other is not None
        assert own.is_integer
        assert own.min <= other.min
        assert own.allowed(held).all()
        assert node.attributes.get_string("data_layout") == "NCHW"


def test_layouts_are_annotated():
    exported, _ = equal_after(small_cnn(), LOWERED)
    turned = by_operator(exported, "Transpose")[0]
    assert turned.inputs[0] is not None
    assert layout_of(turned.inputs[0]) == ("N", "C", "H", "W")
    assert {layout_of(node.outputs[0]) for node in by_operator(exported, "Im2Col")} == {("N", "H", "W", "C")}
    assert layout_of(by_operator(exported, "MatMul")[-1].outputs[0]) == ("N", "C")


def test_convolutions_become_products_with_one_transposition():
    exported, notes = equal_after(small_cnn(), LOWERED)
    assert operators(exported.graph) == [
        *("MultiThreshold", "Transpose", "Im2Col", "MatMul", "MultiThreshold", "MaxPoolNHWC"),
        *("Im2Col", "MatMul", "MultiThreshold", "MatMul", "MultiThreshold", "Reshape", "MatMul", "Mul"),
    ]
    depthwise = by_operator(exported, "Im2Col")[1]
    assert depthwise.attributes.get_int("depthwise") == 1
    matrix = by_operator(exported, "MatMul")[1].inputs[1]
    assert matrix is not None
    assert sparsity_of(matrix) == {"dw": {"kernel_shape": [4, 4]}}
    assert [node.attributes.get_string("data_layout") for node in by_operator(exported, "MultiThreshold")] == [
        *("NCHW", "NHWC", "NHWC", "NHWC")
    ]
    assert not [note for note in notes if "Conv" in note]
    assert apply(ExportFinn(), exported) is False


BRANCHES = {
    "residual": "b = Conv <pads = [1, 1, 1, 1]> (a, w)\nc = Add (a, b)",
    "joined": "b = Conv <pads = [1, 1, 1, 1]> (a, w)\nc = Concat <axis = 1> (b, a)",
    "summed up": "b = Conv <strides = [2, 1]> (a, w)\nc = ReduceSum (b, axes)",
    "with constants": "b = Conv (a, w, k)\nd = Add (b, n)\nc = Mul (d, m)",
    "multiplied channels": "b = Conv <group = 3, dilations = [1, 2]> (a, v)\nc = Relu (b)",
}


@pytest.mark.parametrize("kind", BRANCHES)
def test_what_lies_between_convolutions_has_its_channels_last(kind: str):
    body = BRANCHES[kind]
    model = network(
        "float[1, 3, 6, 6] x",
        "float[A, B, C, D] y",
        f"a = q(-3, 4) x\n{body}\ny = Mul (c, s)",
        {
            "w": weights(3, 3, 3, 3),
            "v": weights(6, 1, 3, 3),
            "k": weights(3),
            "n": weights(3, 1, 1, low=-50, high=50),
            "m": weights(1, 1, 4, low=1, high=4),
            "s": [0.1],
        },
        also="int64[2] axes = {2, -1}",
    )
    exported, _ = equal_after(model, LOWERED)
    assert "Conv" not in operators(exported.graph)
    assert operators(exported.graph).count("Transpose") == 2


STAYING = {
    "it is not of integers": "b = Conv (x, w)",
    "it has groups of several channels": "a = q(-3, 4) x\nb = Conv <group = 2> (a, v)",
    "its padding depends on auto_pad": 'a = q(-3, 4) x\nb = Conv <auto_pad = "SAME_LOWER"> (a, w)',
}


def test_convolutions_over_one_axis_stay_for_their_axes():
    model = network(
        "float[1, 4, 6] x",
        "float[1, 3, 4] y",
        "a = q(-3, 4) x\nb = Conv (a, w)\ny = Mul (b, s)",
        {"w": weights(3, 4, 3), "t": [[0.5]], "s": [0.1]},
    )
    exported, notes = equal_after(model, LOWERED)
    conv = next(node for node in exported.graph if node.op_type == "Conv")
    assert list(conv.attributes.get_ints("kernel_shape")) == [3]
    assert any("its input has 3 axes" in note for note in notes)
    assert any("FINN slides windows over two-dimensional images" in note for note in notes)


@pytest.mark.parametrize("reason", STAYING)
def test_convolutions_that_cannot_be_lowered_stay(reason: str):
    model = network(
        "float[1, 4, 6, 6] x",
        "float[A, B, C, D] y",
        f"{STAYING[reason]}\ny = Mul (b, s)",
        {"w": weights(3, 4, 3, 3), "v": weights(4, 2, 3, 3), "t": [[0.5]], "s": [0.1]},
    )
    exported, notes = equal_after(model, LOWERED)
    assert "Conv" in operators(exported.graph)
    assert "Transpose" not in operators(exported.graph)
    assert any(f"stays a convolution: {reason}" in note for note in notes)


def binary_mlp(end: str = "y = Mul (f, s)", **other: np.ndarray) -> ir.Model:
    bipolar = '<out_dtype = "BIPOLAR", out_scale = 2.0, out_bias = -1.0>'
    return network(
        "float[2, 9] x",
        "float[2, 4] y",
        f"""
        a = {MT} {bipolar} (x, t0)
        b = MatMul (a, w1)
        c = {MT} {bipolar} (b, t1)
        d = MatMul (c, w2)
        e = {MT} {bipolar} (d, t2)
        f = MatMul (e, w3)
        {end}
        """,
        {
            "w1": signs(9, 6),
            "w2": signs(6, 6),
            "w3": signs(6, 4),
            "t0": np.float32([[0.25]]),
            "s": np.float32([0.1]),
            "t1": np.float32([[-9], [-3], [0], [1], [4], [10]]),
            "t2": steps(6, 1, 5),
            **other,
        },
    )


def test_products_of_signs_count_where_they_agree():
    exported, _ = equal_after(binary_mlp(), "export-finn", size=1)
    assert operators(exported.graph) == [
        *("MultiThreshold", "XnorPopcountMatMul") * 3,
        *("Add", "Mul"),
    ]
    counting = by_operator(exported, "XnorPopcountMatMul")
    for node in counting:
        assert [str(datatype_of(value)) for value in node.inputs if value is not None] == ["BINARY", "BINARY"]
    assert [str(datatype_of(node.outputs[0])) for node in counting] == ["UINT4", "UINT3", "UINT3"]
    assert scales_and_types(exported) == [(1.0, 0.0, "BINARY")] * 3
    assert apply(ExportFinn(), exported) is False


def scales_and_types(model: ir.Model) -> list[tuple[float | None, float | None, str | None]]:
    found = [node.attributes for node in by_operator(model, "MultiThreshold")]
    return [(a.get_float("out_scale", 1.0), a.get_float("out_bias", 0.0), a.get_string("out_dtype")) for a in found]


ENDS = {
    "scaled and shifted": ("g = Mul (f, s)\ny = Add (g, k)", ["Add", "Mul", "Add"]),
    "scaled in front": ("y = Mul (s, f)", ["Add", "Mul"]),
    "as it is": ("y = Identity (f)", ["Mul", "Add", "Identity"]),
    "added to": ("g = Relu (f)\nh = Mul (f, s)\ny = Add (g, h)", ["Add", "Mul", "Mul", "Add", "Relu", "Add"]),
}


@pytest.mark.parametrize("kind", ENDS)
def test_what_follows_takes_counts(kind: str):
    end, expected = ENDS[kind]
    exported, _ = equal_after(binary_mlp(end, k=np.float32([0.3, -0.1, 7, 0])), "export-finn", size=1)
    assert sorted(operators(exported.graph)[6:]) == sorted(expected)


@pytest.mark.parametrize(
    ("change", "products"),
    [({"w1": weights(9, 6)}, 2), ({"w2": weights(6, 6)}, 2), ({"t0": np.float32([[0.1, 0.2]])}, 2)],
)
def test_signs_take_two_bits_where_weights_are_others(change: dict[str, np.ndarray], products: int):
    exported, notes = equal_after(binary_mlp(**change), "export-finn", size=1)
    assert operators(exported.graph).count("XnorPopcountMatMul") == products
    assert {scale for scale, _, _ in scales_and_types(exported)} == {1.0}
    if "t0" not in change:
        assert any("take two bits: " in note and "has other weights than -1 and 1" in note for note in notes)


def test_signs_take_two_bits_where_products_are_not_to_be_counted():
    exported, _ = equal_after(binary_mlp(), "export-finn{xnor=false}", size=1)
    assert operators(exported.graph).count("MatMul") == 3
    assert scales_and_types(exported) == [(1.0, -1.0, "INT2")] * 3
    for node in by_operator(exported, "MatMul"):
        assert [str(datatype_of(value)) for value in node.inputs if value is not None] == ["INT2", "BIPOLAR"]


def test_thresholds_that_move_too_far_are_found(monkeypatch: pytest.MonkeyPatch):
    right = bipolar._of_agreements  # pyright: ignore[reportPrivateUsage]

    def wrong(op: Builder, user: ir.Node, length: int) -> ir.Value:
        return right(op, user, length + 2)

    shaped = onnx_passes.apply(binary_mlp(), "shape-inference", verify=False).model
    monkeypatch.setattr(bipolar, "_of_agreements", wrong)
    with pytest.raises(PostconditionError) as raised:
        onnx_passes.apply(shaped, "export-finn")
    assert "count of agreeing signs" in raised.value.failure.application


SIGNS = '<out_dtype = "BIPOLAR", out_scale = 2.0, out_bias = -1.0>'
NEEDED = {
    "they are an output of the model": ("", "float[1, 3, 6, 6] a"),
    "pads them with zeros": ("z = Conv <pads = [1, 1, 1, 1]> (a, w)", "float[1, 4, 6, 6] z"),
    "is not a product with weights": ("z = Relu (a)", "float[1, 3, 6, 6] z"),
    "no product reads them": ("r = Transpose (a)", ""),
}


@pytest.mark.parametrize("reason", NEEDED)
def test_signs_that_somebody_needs_take_two_bits(reason: str):
    more, output = NEEDED[reason]
    model = network(
        "float[1, 3, 6, 6] x",
        ", ".join(["float[1, 4, 4, 4] y", *([output] if output else [])]) if output else "float[1, 3, 6, 6] a",
        f"a = {MT} {SIGNS} (x, t0)\n{more}\n" + ("y = Conv (a, w)" if output else ""),
        {"t0": [[0.0]], "w": signs(4, 3, 3, 3)},
    )
    exported, notes = equal_after(model, "export-finn", size=1)
    assert scales_and_types(exported) == [(1.0, -1.0, "INT2")]
    if output:
        assert any("take two bits: " in note and reason in note for note in notes)


@pytest.mark.parametrize(("levels", "declared"), [(14, "INT4"), (15, "INT4"), (3, "UINT8")])
def test_thresholds_of_counts_begin_at_the_least_of_their_type(levels: int, declared: str):
    """FINN takes the lowest level there from the type."""
    bias = {14: -7.0, 15: -8.0, 3: 2.0}[levels]
    model = network(
        "float[2, 9] x",
        "float[2, 6] y",
        f"""a = {MT} {SIGNS} (x, t0)
        b = MatMul (a, w1)
        y = {MT} <out_dtype = "{declared}", out_bias = {bias}> (b, t1)""",
        {"t0": [[0.0]], "w1": signs(9, 6), "t1": steps(6, levels)},
    )
    exported, _ = equal_after(model, "export-finn", size=1)
    last = by_operator(exported, "MultiThreshold")[-1]
    datatype = datatype_of(last.outputs[0])
    assert datatype is not None
    assert last.attributes.get_float("out_bias") == datatype.min
    assert last.attributes.get_string("out_dtype") == str(datatype)


def test_inputs_of_signs_take_two_bits():
    model = network("float[2, 9] x", "float[2, 6] y", "y = MatMul (x, w)", {"w": signs(9, 6)})
    set_datatype(model.graph.inputs[0], BIPOLAR)
    exported, _ = export(model, "export-finn")
    assert str(datatype_of(exported.graph.inputs[0])) == "INT2"


def test_lowered_convolutions_of_signs_count_too():
    model = network(
        "float[1, 3, 6, 6] x",
        "float[1, 4, 2, 2] y",
        f"""a = {MT} {SIGNS} (x, t0)
        b = MaxPool <kernel_shape = [3, 3]> (a)
        c = Conv (b, w1)
        y = {MT} <out_dtype = "UINT1"> (c, t1)""",
        {"t0": [[0.0]], "w1": signs(4, 3, 3, 3), "t1": steps(4, 1)},
    )
    exported, _ = equal_after(model, "export-finn", size=1)
    assert operators(exported.graph) == [
        *("MultiThreshold", "MaxPool", "Transpose", "Im2Col", "XnorPopcountMatMul", "MultiThreshold", "Transpose")
    ]


@pytest.mark.parametrize(
    ("pipeline", "model"), [(LOWERED, small_cnn()), (PLAIN, small_cnn()), ("export-finn", binary_mlp())]
)
def test_verification_agrees(pipeline: str, model: ir.Model):
    assert operators(export(model, pipeline, verify=True)[0].graph) == operators(export(model, pipeline)[0].graph)


def test_steps_down_are_taken_apart():
    model = network(
        "float[2, 3] x",
        "float[2, 3] y",
        f"a = q(-9, 9) x\ny = {OURS}.MultiThreshold <out_bias = 1.0> (a, t, j)",
        {"t": [-4.0, 2.0, 5.0], "j": [1.0, 2.0, -1.0]},
    )
    exported, _ = equal_after(model, "export-finn", size=9)
    assert {node.domain for node in by_operator(exported, "MultiThreshold")} == {GENERAL}


def embedded() -> ir.Model:
    """A positional embedding on the grid of what it is added to, and a product of both."""
    return network(
        "float[1, 2, 3] x",
        "float[1, 2, 2] y",
        "a = q(-9, 9) x\nb = Add (a, e)\nc = Mul (b, s)\nd = q(-3, 3) c\ny = MatMul (d, w)",
        {"e": [[1.0, -2.0, 3.0], [0.0, 5.0, -1.0]], "s": 0.4, "w": [[1.0, -1.0], [2.0, 1.0], [0.0, 3.0]]},
    )


def test_positional_embeddings_are_added():
    exported, _ = equal_after(embedded(), "infer-thresholds, export-finn", size=9)
    assert operators(exported.graph).count("Add") == 1
    assert {node.domain for node in by_operator(exported, "MultiThreshold")} == {GENERAL}


@pytest.mark.parametrize(("options", "rows"), [("{semantics=float}", 6), ("{by-channel=true}", 1)])
def test_positional_embeddings_make_thresholds_of_elements_unless_told_otherwise(options: str, rows: int):
    model = network(
        "float[1, 2, 3] x",
        "float[1, 2, 2] y",
        f"""a = q(-9, 9) x
        b = Mul (a, s)
        c = Add (b, e)
        d = {GENERAL}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (c, one, zero, bits)
        y = MatMul (d, w)""",
        {
            "e": np.float32([[0.1, -0.2, 0.3], [0.4, -1.7, 2.6]]),
            "s": [0.4],
            "w": weights(3, 2),
            "one": np.float32(1),
            "zero": np.float32(0),
            "bits": np.float32(3),
        },
    )
    exported, _ = equal_after(model, f"infer-thresholds{options}, export-finn", size=9)
    shapes = [static_shape(node.inputs[1]) for node in by_operator(exported, "MultiThreshold")]
    assert max(shape[0] for shape in shapes if shape) == rows


def test_thresholds_that_differ_along_several_axes_get_one():
    model = network(
        "float[1, 2, 3] x",
        "float[1, 2, 3] y",
        f"[it] y = {OURS}.MultiThreshold (x, t)",
        {"t": np.arange(12, dtype=np.float32).reshape(2, 3, 2)},
    )
    exported, _ = equal_after(model, "export-finn", size=9)
    assert operators(exported.graph) == ["Reshape", "MultiThreshold", "Reshape"]


def test_refuses_thresholds_that_are_computed():
    model = network("float[1, 3] x, float[1, 2] t", "float[1, 3] y", f"[it] y = {OURS}.MultiThreshold (x, t)", {})
    with pytest.raises(PassFailedError, match="QONNX cannot express MultiThreshold") as caught:
        export(model, "export-finn")
    assert "it" in str(caught.value)


@pytest.mark.parametrize(
    ("pipeline", "model"),
    [
        (LOWERED, small_cnn()),
        ("export-finn", binary_mlp()),
        ("export-finn{xnor=false}", binary_mlp()),
        (PLAIN, small_cnn()),
        ("infer-thresholds, export-finn", embedded()),
    ],
)
def test_qonnx_computes_the_same(pipeline: str, model: ir.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("qonnx")
    wrapper = importlib.import_module("qonnx.core.modelwrapper")
    executor = importlib.import_module("qonnx.core.onnx_exec")
    make = onnx.helper.make_model

    def make_old_model(*args: object, **kwargs: object) -> onnx.ModelProto:
        made = make(*args, **kwargs)  # type: ignore[arg-type]
        made.ir_version = 8
        return made

    monkeypatch.setattr(onnx.helper, "make_model", make_old_model)
    inputs = samples(model, 3, size=6)
    expected = results(model, inputs)
    exported, _ = export(model, pipeline)
    onnx_passes.save(exported, tmp_path / "m.onnx")
    read = wrapper.ModelWrapper(str(tmp_path / "m.onnx"))
    for sample, wanted in zip(inputs, expected, strict=True):
        if next(iter(sample.values())).shape[0] == 1 or len(expected[0][0].shape) == 2:
            found = executor.execute_onnx(read, sample)
            assert found[str(exported.graph.outputs[0].name)].tobytes() == wanted[0].tobytes()


MOST = {
    "zoo/TFC_1W1A": ("export-finn", 12),
    "zoo/TFC_2W2A": ("export-finn", 11),
    "zoo/unsw_nb15-mlp-w2a2": ("export-finn", 8),
    "brevitas/bnnpynq_cnv_2w2a": (LOWERED, 31),
    "brevitas/resnet18_w8_4w4a": (LOWERED, 105),
    # Thresholds and a product for each layer, a reshape, and the scale; −1 and 1 need a shift as well.
    "zoo/small_tfc_1w1a": ("export-finn", 4 * 2 + 3),
    "zoo/small_tfc_2w2a": ("export-finn", 4 * 2 + 2),
    "zoo/small_keywords": ("export-finn", 3 * 2 + 2),
    # The same, patches for each convolution, pools, a transposition, a reshape, the scale.
    "brevitas/small_cnv": (LOWERED, 4 * 2 + 2 + 2 + 3),
}
"""The pipeline for a network, and how many nodes there may be: for those of others as many as FINN leaves."""


@pytest.mark.parametrize(("path", "limit"), named(MOST), indirect=["path"])
def test_networks_have_no_more_nodes_than_finn_leaves(path: Path, limit: tuple[str, int]):
    pipeline, most = limit
    exported = onnx_passes.apply(load(path), f"streamline, {pipeline}", verify=False).model
    assert len(exported.graph) <= most
    assert exported.ir_version <= 8
