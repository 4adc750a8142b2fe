from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.api import run_model
from onnx_passes.core.errors import PassFailedError
from onnx_passes.passes.qonnx.export_qonnx import ExportQonnx
from onnx_passes.passes.qonnx.inject_ops import InjectOps
from tests.passes.qonnx.tools import GENERAL, X, quantized
from tests.passes.tools import apply, model_of, notes_of, value


def export(model: ir.Model) -> ir.Model:
    return onnx_passes.apply(model, "export-qonnx").model


def test_every_tensor_has_type_and_shape_in_the_file(tmp_path: Path):
    onnx_passes.save(export(quantized(domain="onnx.brevitas", opset=11)), tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    graph = proto.graph
    described = {info.name for info in (*graph.input, *graph.output, *graph.value_info) if info.type.tensor_type.shape}
    assert {name for node in graph.node for name in (*node.input, *node.output)} <= described
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 13), (GENERAL, 1)]


def test_data_types_are_annotated():
    model = model_of(
        f"""
        g (float[1, 4] x) => (float[1, 2] y)
        <float s = {{1.0}}, float z = {{0.0}}, float b = {{3.0}}, float[4, 2] w = {{1, -1, 1, -1, 1, -1, 1, -1}}>
        {{
            q = {GENERAL}.Quant <signed = 1, narrow = 1, rounding_mode = "ROUND"> (x, s, z, b)
            y = MatMul (q, w)
        }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    types = {
        a.tensor_name: {e.key: e.value for e in a.quant_parameter_tensor_names}
        for a in ir.to_proto(export(model)).graph.quantization_annotation
    }
    assert types["q"] == {"finn_datatype": "INT3"}
    assert types["w"] == {"finn_datatype": "BIPOLAR"}
    assert types["y"] == {"finn_datatype": "INT5"}


def test_ir_version_is_one_that_older_tools_read():
    for opset, given, wanted in ((13, 13, 8), (18, 13, 8), (20, 13, 9), (21, 13, 10), (13, 7, 7)):
        model = quantized(opset=opset)
        model.ir_version = given
        assert export(model).ir_version == wanted
    model = quantized()
    model.ir_version = 12
    assert ExportQonnx(ir_version=10).call(model).modified
    assert model.ir_version == 10


def test_injected_functions_go():
    model = quantized()
    InjectOps().call(model)
    exported = export(model)
    assert not exported.functions
    assert exported.graph[0].overload == ""


def test_constants_become_initializers():
    model = model_of(
        f"g (float[2] x) => (float[2] y) {{ s = Constant <value_float = 0.5> () y = {GENERAL}.BipolarQuant (x, s) }}",
        domains=f'"{GENERAL}" : 1',
    )
    assert set(export(model).graph.initializers) == {"s"}


def test_outputs_that_are_initializers_are_described_once():
    model = model_of(
        f"""
        g (float[2] x) => (float[2] y, float s) <float s = {{0.5}}> {{ y = {GENERAL}.BipolarQuant (x, s) }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    exported = export(model)
    graph = ir.to_proto(exported).graph
    names = [info.name for info in (*graph.input, *graph.output, *graph.value_info)]
    assert len(names) == len(set(names))
    assert run_model(exported, {"x": np.ones(2, np.float32)})["s"] == 0.5


def thresholds(
    text: str, *, x: str = "float[1, 3, 2, 2]", y: str = "float[1, 3, 2, 2]", inputs: str = "x, t"
) -> ir.Model:
    return model_of(
        f"g ({x} x) => ({y} y) <{text}> {{ y = onnx_passes.MultiThreshold <out_bias = -1.0> ({inputs}) }}",
        domains='"onnx_passes" : 1',
    )


PER_CHANNEL = "float[3, 1, 1, 2] t = {0.0, 1.0, -1.0, 0.5, 2.0, 2.5}"


@pytest.mark.parametrize(
    ("model", "layout", "rows", "scale", "datatype"),
    [
        (thresholds(PER_CHANNEL), "NCHW", [3, 2], 1, "TERNARY"),
        (thresholds(f"{PER_CHANNEL}, float w = {{2.0}}", inputs="x, t, w"), "NCHW", [3, 2], 2, "INT3"),
        (thresholds("float[2, 2] t = {0.0, 1.0, -1.0, 0.5}"), "NHWC", [2, 2], 1, "TERNARY"),
        (thresholds("float[2] t = {0.0, 1.0}"), "NCHW", [1, 2], 1, "TERNARY"),
        (thresholds("float[1, 1, 1] t = {0.5}"), "NCHW", [1, 1], 1, "INT1"),
        (thresholds("float[1] t = {0.5}, float[1] w = {0.25}", inputs="x, t, w"), "NCHW", [1, 1], 0.25, "FLOAT32"),
    ],
)
def test_own_thresholds_become_those_of_qonnx(
    model: ir.Model, layout: str, rows: list[int], scale: float, datatype: str
):
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(1, 3, 2, 2)
    expected = run_model(model, {"x": x})["y"]
    exported = export(model)
    (node,) = exported.graph
    assert (node.domain, node.op_type, len(node.inputs)) == (GENERAL, "MultiThreshold", 2)
    assert node.attributes.get_string("data_layout") == layout
    assert node.attributes.get_float("out_scale") == scale
    assert node.attributes.get_float("out_bias") == -1
    assert list(node.inputs[1].shape) == rows
    assert node.attributes.get_string("out_dtype") == datatype
    assert dict(exported.opset_imports) == {"": 18, GENERAL: 1}
    assert run_model(exported, {"x": x})["y"].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (thresholds(f"{PER_CHANNEL}, float[2] w = {{1.0, 2.0}}", inputs="x, t, w"), "its steps differ in height"),
        (thresholds("float[2, 1, 1] t = {0.0, 1.0}"), "another axis than that of the channels"),
        (
            thresholds("float[9] t = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[1] w = {0.1}", inputs="x, t, w"),
            "accumulate to other floats",
        ),
    ],
)
def test_refuses_what_qonnx_cannot_express(model: ir.Model, reason: str):
    with pytest.raises(PassFailedError, match=f"QONNX cannot express MultiThreshold: .*{reason}"):
        export(model)


def test_own_quantizers_change_their_domain():
    exported = export(quantized(domain="onnx_passes"))
    assert exported.graph[0].domain == GENERAL
    assert dict(exported.opset_imports) == {"": 18, GENERAL: 1}


def test_layout_is_written_down():
    model = model_of(
        f"""
        g (float[2, 5, 3] x) => (float[2, 5, 3] y) <float[3, 1] t = {{0.0, 1.0, 2.0}}>
        {{ y = {GENERAL}.MultiThreshold <out_dtype = "UINT1"> (x, t) }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    assert export(model).graph[0].attributes.get_string("data_layout") == "NWC"


def test_windows_are_spelled_out():
    last = "qonnx.custom_op.channels_last"
    model = model_of(
        f"""
        g (float[1, 6, 6, 2] x, float[2, 3, 3, 2] w) => (float[1, 2, 2, 18] y)
        {{
            p = {GENERAL}.MaxPoolNHWC <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (x)
            c = {last}.Conv (p, w)
            m = {last}.MaxPool <kernel_shape = [2, 2]> (c)
            y = {GENERAL}.Im2Col <kernel_size = [3, 3], stride = [1, 1]> (m)
        }}
        """,
        domains=f'"{GENERAL}" : 1, "{last}" : 1',
    )
    exported = export(model)
    pool, conv, other, patches = exported.graph
    assert list(pool.attributes.get_ints("strides")) == [1, 1]
    assert list(pool.attributes.get_ints("pads")) == [1, 1, 1, 1]
    assert list(conv.attributes.get_ints("kernel_shape")) == [3, 3]
    assert list(other.attributes.get_ints("dilations")) == [1, 1]
    assert patches.attributes.get_string("input_shape") == "(1,4,4,2)"


@pytest.mark.parametrize("padding", ["", '<auto_pad = "SAME_UPPER">', "<pads = [1, 1, 1, 1]>"])
def test_convolutions_say_all_that_qonnx_reads_of_them(padding: str, tmp_path: Path):
    """QONNX looks up the size of kernels, strides and groups without a default, as FINN does."""
    core = pytest.importorskip("qonnx.core.modelwrapper")
    lowering = pytest.importorskip("qonnx.transformation.lower_convs_to_matmul")
    inputs = "x, w" if padding else "x, w, b"
    model = model_of(
        f"""
        g (float[1, 2, 6, 6] x) => (float[1, 3, M, N] y)
        <float[3, 2, 3, 3] w = {{{", ".join(map(str, range(54)))}}}, float[3] b = {{1, 2, 3}}>
        {{ y = Conv {padding} ({inputs}) }}
        """
    )
    exported = export(model)
    (conv,) = exported.graph
    assert list(conv.attributes.get_ints("kernel_shape")) == [3, 3]
    assert list(conv.attributes.get_ints("strides")) == [1, 1]
    assert conv.attributes.get_int("group") == 1
    assert ("pads" in conv.attributes) == ("SAME" not in padding)
    x = {"x": np.arange(72, dtype=np.float32).reshape(1, 2, 6, 6)}
    assert (run_model(exported, x)["y"] == run_model(model, x)["y"]).all()
    if len(conv.inputs) == 2:
        onnx_passes.save(exported, tmp_path / "m.onnx")
        lowered = core.ModelWrapper(str(tmp_path / "m.onnx")).transform(lowering.LowerConvsToMatMul())
        assert "Im2Col" in [node.op_type for node in lowered.graph.node]


def test_what_qonnx_does_not_read_is_noted():
    model = model_of(
        """
        g (float[N, 4] x, bool c) => (y)
        <float[4] w = {1, 1, 1, 1}>
        {
            z = If (c) <then_branch = a () => (t) { t = local.f (x) }, else_branch = b () => (e) { e = Neg (x) }>
            y = Add (z, w)
        }
        <domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = Neg (a) }
        """,
        domains='"local" : 1',
    )
    notes = "\n".join(notes_of(ExportQonnx(), model))
    for words in (
        "functions, but the model has 1",
        "bodies of If",
        "type and shape of every tensor",
        "static shapes",
    ):
        assert words in notes


def test_overridable_initializers_are_noted():
    model = quantized()
    model.graph.inputs.append(value(model, "scale"))
    assert "1 initializer can be overridden" in "\n".join(notes_of(ExportQonnx(), model))


def test_exported_model_stays():
    model = export(quantized())
    assert not apply(ExportQonnx(), model)
    np.testing.assert_array_equal(run_model(model, {"x": X})["y"], run_model(quantized(), {"x": X})["y"])
