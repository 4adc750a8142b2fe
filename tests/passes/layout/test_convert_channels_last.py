"""Networks on images become ones with channels last, and compute the same."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import operators as interfaces
from onnx_passes.api import run_model
from onnx_passes.core.instruments import Limit
from onnx_passes.graph.operators import INTERFACES
from onnx_passes.graph.tensor_types import datatype_of, layout_of, set_datatype, set_layout
from onnx_passes.passes.layout.convert_channels_last import ConvertChannelsLast
from onnx_passes.testing import assert_same_graph, check_pass
from tests.passes.tools import apply, model_of, notes_of, operators, run

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
HEAD = f'<ir_version: 9, opset_import: ["" : 18, "{GENERAL}" : 1, "{LAST}" : 18]>'
WINDOWS = "kernel_shape = [3, 3], strides = [1, 1], dilations = [1, 1], pads = [1, 1, 1, 1]"
CONV = f"{LAST}.Conv <group = 1, {WINDOWS}>"
RNG = np.random.default_rng(3)


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-8, 9, shape).astype(np.float32) / 8


def network(text: str, opset: int = 18, **weights: np.ndarray) -> ir.Model:
    """Parse a graph, and give values that are not computed these contents."""
    model = model_of(text, opset=opset, domains=f'"{GENERAL}" : 1')
    for name, array in weights.items():
        value = next(v for node in model.graph for v in node.inputs if v is not None and v.name == name)
        value.const_value = ir.Tensor(array, name=name)
        value.dtype, value.shape = ir.DataType.from_numpy(array.dtype), ir.Shape(array.shape)
        model.graph.register_initializer(value)
    return model


def converted(model: ir.Model, options: str = "") -> ir.Model:
    """Convert, verified, and compare in ONNX Runtime once more, on inputs of our own."""
    result = onnx_passes.apply(model, f"convert-channels-last{{{options}}}", paranoid=True).model
    feeds = {
        v.name or "": numbers(*(d if isinstance(d, int) else 2 for d in v.shape or ())) for v in model.graph.inputs
    }
    before, after = run_model(model, feeds), run_model(result, feeds)
    for name, expected in before.items():
        np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-5)
    return result


def channels_last(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph if node.domain == LAST]


def test_convolutions_and_what_lies_between_them():
    held = ", ".join(f"{k} = {{{', '.join(map(str, range(n)))}}}" for k, n in (("float[2, 1, 3, 3] w", 18),))
    turned = ", ".join(str(tap) for row in range(2) for tap in range(9 * row, 9 * row + 9))
    before = f"""{HEAD} g (float[1, 1, 4, 5] x) => (float[1, 2, 4, 5] y)
    <{held}, float[2, 1, 1] b = {{1, 2}}> {{
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        d = Add (c, b)
        e = Relu (d)
        y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (e)
    }}"""
    after = f"""{HEAD} g (float[1, 1, 4, 5] x) => (float[1, 2, 4, 5] y)
    <float[2, 3, 3, 1] w = {{{turned}}}, float[1, 1, 2] b = {{1, 2}}> {{
        t = Transpose <perm = [0, 2, 3, 1]> (x)
        c = {CONV} (t, w)
        d = Add (c, b)
        e = Relu (d)
        m = {LAST}.MaxPool <ceil_mode = 0, {WINDOWS}> (e)
        y = Transpose <perm = [0, 3, 1, 2]> (m)
    }}"""
    result = check_pass(before, "convert-channels-last", after)
    step = next(each for each in result.record.leaves() if each.name == "convert-channels-last")
    assert step.applications == sum(rule.applied for rule in step.rules) >= 5


def test_inputs_and_outputs_turn_if_that_is_wanted():
    before = network(
        "g (float[N, 2, 4, 5] x, float[3] z) => (float[N, 3, 4, 5] y) { c = Conv (x, w) y = Relu (c) }",
        w=numbers(3, 2, 1, 1),
    )
    result = onnx_passes.apply(before, "convert-channels-last{inputs=true, outputs=true}").model
    assert operators(result.graph) == ["Conv", "Relu"]
    assert [list(map(str, v.shape or ())) for v in (*result.graph.inputs, *result.graph.outputs)] == [
        *(["N", "4", "5", "2"], ["3"], ["N", "4", "5", "3"])
    ]
    x = numbers(2, 2, 4, 5)
    expected = run(before, {"x": x, "z": numbers(3)})[0]
    found = run_model(result, {"x": x.transpose(0, 2, 3, 1), "z": numbers(3)})["y"]
    np.testing.assert_array_equal(found, expected.transpose(0, 2, 3, 1))


FAMILIES = {
    "one axis": ("float[2, 3, 9] x", "a = Conv <strides = [2]> (x, w1) b = MaxPool <kernel_shape = [2]> (a)"),
    "three axes": ("float[1, 3, 4, 5, 4] x", "a = Conv (x, w3) b = AveragePool <kernel_shape = [1, 2, 2]> (a)"),
    "groups": ("float[2, 4, 5, 6] x", "a = Conv <group = 4> (x, wd) b = Conv <group = 2> (a, wg)"),
    "computed padding": ("float[1, 3, 5, 6] x", 'b = Conv <auto_pad = "SAME_LOWER", strides = [2, 2]> (x, w2)'),
    "open sizes": ("float[N, 3, H, W] x", 'b = Conv <auto_pad = "SAME_UPPER"> (x, w2)'),
    "transposed": (
        "float[1, 3, 4, 5] x",
        "b = ConvTranspose <strides = [2, 2], output_padding = [1, 0], pads = [1, 0, 0, 1]> (x, wt)",
    ),
    "normalization": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = BatchNormalization (a, n, n, z, n)"),
    "slopes": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = PRelu (a, s)"),
    "residual": ("float[2, 3, 5, 6] x", "a = Conv (x, ws) b = Add (a, x)"),
    "two inputs": ("float[2, 3, 5, 6] x, float[2, 4, 3, 4] v", "a = Conv (x, w2) b = Mul (v, a)"),
    "concatenated": ("float[2, 3, 5, 6] x", "a = Conv (x, ws) c = Relu (a) b = Concat <axis = 1> (c, x, a)"),
    "split": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) c, d = Split <axis = 1> (a, two) b = Sub (d, c)"),
    "sliced": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = Slice (a, one, three, axis)"),
    "padded": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = Pad (a, padding)"),
    "nearest": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = Resize (a, , scales)"),
    "linear": ("float[2, 3, 5, 6] x", 'a = Conv (x, w2) b = Resize <mode = "linear"> (a, , scales)'),
    "sizes": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = Resize (a, , , sizes)"),
    "softmax": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = Softmax <axis = 1> (a)"),
    "best channel": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) i = ArgMax <axis = 1> (a) b = Cast <to = 1> (i)"),
    "mean of channels": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = ReduceMean <keepdims = 0> (a, channels)"),
    "mean of pixels": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = ReduceMean <keepdims = 0> (a, pixels)"),
    "largest pixel": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = GlobalMaxPool (a)"),
    "squeeze and excite": (
        "float[2, 3, 5, 6] x",
        "a = Conv (x, w2) g = GlobalAveragePool (a) e = Conv (g, we) s1 = Sigmoid (e) b = Mul (a, s1)",
    ),
    "u-net": (
        "float[2, 3, 4, 6] x",
        """a = Conv <pads = [1, 1, 1, 1]> (x, wp) d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
        e = Relu (d) u = ConvTranspose <strides = [2, 2]> (e, wu) j = Concat <axis = 1> (u, a) b = Conv (j, wj)""",
    ),
    "shuffled channels": (
        "float[2, 4, 5, 6] x",
        """a = Conv <group = 2> (x, wg) f = Reshape (a, apart) t = Transpose <perm = [0, 2, 1, 3, 4]> (f)
        h = Reshape (t, together) b = Conv <group = 2> (h, wg)""",
    ),
    "depth to space": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = DepthToSpace <blocksize = 2> (a)"),
    "other order": ("float[2, 3, 5, 6] x", 'a = Conv (x, w2) b = DepthToSpace <blocksize = 2, mode = "CRD"> (a)'),
    "space to depth": ("float[2, 3, 6, 6] x", "a = Conv (x, w2) b = SpaceToDepth <blocksize = 2> (a)"),
    "dropped": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) b = Dropout (a)"),
    "dense": ("float[2, 3, 5, 6] x", "a = Conv (x, w2) f = Flatten (a) b = Gemm <transB = 1> (f, m)"),
    "dense, quantized": (
        "float[2, 3, 5, 6] x",
        f"""a = Conv (x, w2) f = Flatten (a)
        q = {GENERAL}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (f, qs, qz, qb)
        v1 = {GENERAL}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (mt, qm, qz, qb)
        b = MatMul (q, v1)""",
    ),
    "quantized": (
        "float[2, 3, 5, 6] x",
        f"""q = {GENERAL}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, qs, qz, qb)
        v = {GENERAL}.Quant <signed = 1, narrow = 1, rounding_mode = "ROUND"> (w2, qw, qz, qb)
        a = Conv (q, v) b = {GENERAL}.MultiThreshold <out_dtype = "UINT2", data_layout = "NCHW"> (a, thresholds)""",
    ),
    "linear quantization": (
        "float[2, 3, 5, 6] x",
        """k = DequantizeLinear <axis = 0> (wi, ls) a = Conv (x, k) q = QuantizeLinear <axis = 1> (a, ls, lz)
        b = DequantizeLinear <axis = 1> (q, ls, lz)""",
    ),
}
WEIGHTS = {
    "w1": numbers(4, 3, 2),
    "w2": numbers(4, 3, 3, 3),
    "w3": numbers(2, 3, 2, 2, 2),
    "wd": numbers(4, 1, 2, 2),
    "wg": numbers(4, 2, 1, 2),
    "wt": numbers(3, 2, 3, 2),
    "ws": numbers(3, 3, 1, 1),
    "we": numbers(4, 4, 1, 1),
    "wp": numbers(4, 3, 3, 3),
    "wu": numbers(4, 4, 2, 2),
    "wj": numbers(2, 8, 1, 1),
    "wi": RNG.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8),
    "m": numbers(7, 48),
    "mt": numbers(48, 7),
    "n": np.abs(numbers(4)) + 1,
    "z": numbers(4),
    "s": numbers(4, 1, 1),
    "thresholds": np.sort(numbers(4, 3), axis=1),
    "qs": np.array(0.25, np.float32),
    "qm": np.full((1, 7), 0.125, np.float32),
    "qw": np.full((4, 1, 1, 1), 0.125, np.float32),
    "qz": np.array(0, np.float32),
    "qb": np.array(4, np.float32),
    "ls": np.array([0.5, 0.25, 0.125, 1], np.float32),
    "lz": np.zeros(4, np.int8),
    "scales": np.array([1, 1, 2, 3], np.float32),
    "sizes": np.array([2, 4, 6, 9], np.int64),
    "padding": np.array([0, 1, 0, 2, 0, 0, 1, 0], np.int64),
    "one": np.array([1], np.int64),
    "two": np.array([2, 2], np.int64),
    "three": np.array([3], np.int64),
    "axis": np.array([-3], np.int64),
    "channels": np.array([1], np.int64),
    "pixels": np.array([2, 3], np.int64),
    "apart": np.array([2, 2, 2, 5, 5], np.int64),
    "together": np.array([2, 4, 5, 5], np.int64),
}
FOUND = {"shuffled channels": 1, "depth to space": 1, "other order": 1, "space to depth": 1}
"""Transposes of blocks of pixels count as found: ONNX has no other word for them with channels last."""
NOT_IMAGES = {"mean of pixels", "dense", "dense, quantized"}


def inferred(inputs: str, body: str) -> ir.Model:
    words = set(body.replace("(", " ").replace(")", " ").replace(",", " ").split())
    held = {key: array for key, array in WEIGHTS.items() if key in words}
    model = network(f"g ({inputs}) => (float y) {{ {body} y = Relu (b) }}", **held)
    model.graph.outputs[0].shape = None
    return onnx_passes.apply(model, "shape-inference", verify=False).model


def family(name: str) -> ir.Model:
    return inferred(*FAMILIES[name])


@pytest.mark.parametrize("name", FAMILIES)
def test_transposes_remain_only_at_the_interface(name: str):
    model = family(name)
    result = converted(model)
    found = operators(result.graph)
    images = len(model.graph.inputs) + (name not in NOT_IMAGES)
    assert found.count("Transpose") <= FOUND.get(name, 0) + images
    starting = [
        node.op_type for node in model.graph if node.op_type in ("Conv", "ConvTranspose", "MaxPool", "AveragePool")
    ]
    assert [each for each in channels_last(result) if each != "BatchNormalization"] == starting
    assert not [node for node in result.graph if node.domain == "" and node.op_type in starting]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("options", ["domain=standard", "exact=true", "strict=true"])
def test_other_forms_compute_the_same(name: str, options: str):
    model = family(name)
    result = converted(model, options)
    if options == "exact=true":
        feeds = {v.name or "": numbers(*(d if isinstance(d, int) else 5 for d in v.shape)) for v in model.graph.inputs}
        before, after = run_model(model, feeds), run_model(result, feeds)
        assert {key: array.tobytes() for key, array in before.items()} == {k: a.tobytes() for k, a in after.items()}
    else:
        known = {"Conv", "MaxPool", "BatchNormalization"} if options == "strict=true" else set[str]()
        assert set(channels_last(result)) <= known


@pytest.mark.parametrize(
    "options", ["", "domain=standard", "inputs=true", "domain=standard, inputs=true", "strict=true", "outputs=true"]
)
@pytest.mark.parametrize("name", ["residual", "u-net", "normalization", "squeeze and excite"])
def test_a_second_time_changes_nothing(name: str, options: str):
    pipeline = f"convert-channels-last{{{options}}}"
    once = onnx_passes.apply(family(name), pipeline, verify=False).model
    assert not onnx_passes.apply(once, pipeline, verify=False).modified


@pytest.mark.parametrize("name", ["residual", "u-net", "quantized", "groups", "transposed", "one axis", "three axes"])
def test_there_and_back_is_the_same_network(name: str):
    model = family(name)
    there = converted(model)
    back = onnx_passes.apply(there, "convert-channels-first, fold-constants, cleanup").model
    assert sorted(operators(back.graph)) == sorted(operators(model.graph))
    again = onnx_passes.apply(back, "convert-channels-last, convert-channels-first, fold-constants, cleanup").model
    assert_same_graph(again, back)


def test_standard_operators_stand_between_transposes():
    before = network(
        "g (float[1, 2, 4, 5] x) => (float[1, 2, 4, 5] y) { c = Conv (x, w) r = Relu (c) y = Conv (r, w) }",
        w=numbers(2, 2, 1, 1),
    )
    result = converted(before, "domain=standard")
    assert operators(result.graph) == ["Conv", "Transpose", "Relu", "Transpose", "Conv"]


REFUSED = {
    "the rank of the image is not known": ("float x", "b = Conv (x, w2)"),
    "auto_pad needs the size of the image": (
        "float[1, 3, H, W] x",
        'b = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w2)',
    ),
    "more than its first result is used": (
        "float[1, 3, 4, 4] x",
        "c, i = MaxPool <kernel_shape = [2, 2]> (x) d = Cast <to = 1> (i) b = Add (c, d)",
    ),
    "depends on output_shape": (
        "float[1, 3, 4, 4] x",
        "b = ConvTranspose <strides = [2, 2], output_shape = [7, 7]> (x, wt)",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused_is_named(reason: str):
    model = inferred(*REFUSED[reason])
    for value in model.graph.inputs:
        value.shape = value.shape or None
    assert [note for note in notes_of(ConvertChannelsLast(), model) if reason in note]
    assert not channels_last(model)


def test_nothing_to_do_without_images():
    model = model_of("g (float[2, 3] x) => (float[3, 2] y) { r = Relu (x) y = Transpose (r) }")
    assert not apply(ConvertChannelsLast(), model)


def test_shapes_are_read_where_they_were():
    text = """g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y, int64[4] s) {
        s = Shape (x) c = Conv (x, w) y = Relu (c)
    }"""
    result = converted(network(text, w=numbers(3, 3, 1, 1)))
    assert next(node for node in result.graph if node.op_type == "Shape").inputs[0] is result.graph.inputs[0]


def test_a_value_for_others_is_restored_once():
    text = """g (float[2, 3, 4, 5] x) => (float[1, 120] y, float[3, 40] z)
    <int64[2] a = {1, 120}, int64[2] b = {3, 40}> {
        c = Conv (x, w) r = Relu (c) y = Reshape (r, a) z = Reshape (r, b)
    }"""
    result = converted(network(text, w=numbers(3, 3, 1, 1)))
    assert operators(result.graph).count("Transpose") == 2


def test_an_operator_brings_its_own_form(monkeypatch: pytest.MonkeyPatch):
    def build(images, node):
        return images.op.LpNormalization(images.last(node.inputs[0]), axis=-1)

    table = dict(interfaces.channels_last.table())
    monkeypatch.setattr(INTERFACES["channels_last"], "_table", table)
    interfaces.channels_last.attach({"LRN": interfaces.ChannelsLastForm(build)}, domains=("mine",))
    model = model_of("g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y) { y = mine.LRN (x) }", domains='"mine" : 1')
    result = onnx_passes.apply(model, "convert-channels-last", verify=False).model
    assert operators(result.graph) == ["Transpose", "LpNormalization", "Transpose"]


@pytest.mark.parametrize("options", ["", "inputs=true, outputs=true", "domain=standard"])
def test_a_limit_stops_inside(options: str):
    text = """g (float[1, 2, 4, 4] x) => (float[1, 2, 3, 3] y, int64[4] z) {
        z = Shape (x) a = Relu (x) b = Conv (a, w) y = Neg (b)
    }"""
    model, pipeline = network(text, w=numbers(2, 2, 2, 2)), f"convert-channels-last{{{options}}}"
    total = onnx_passes.apply(model, pipeline, paranoid=True).record.applications
    assert total > 1
    for number in range(total):
        limit = Limit(number)
        record = onnx_passes.apply(model, pipeline, instruments=[limit]).record
        assert limit.reached
        assert record.applications == number


def test_bodies_read_images_as_they_were():
    text = """g (float[1, 3, 4, 4] x, bool b) => (float[1, 3, 4, 4] y) {
        c = Conv (x, w)
        d = If (b) <then_branch = t () => (float[1, 3, 4, 4] p) { p = Relu (c) },
                    else_branch = e () => (float[1, 3, 4, 4] q) { q = Neg (x) }>
        y = Add (c, d)
    }"""
    model = network(text, w=numbers(3, 3, 1, 1))
    result = onnx_passes.apply(model, "convert-channels-last").model
    for branch in (True, False):
        feeds = {"x": numbers(1, 3, 4, 4), "b": np.array(branch)}
        np.testing.assert_array_equal(run_model(result, feeds)["y"], run(model, feeds)[0])


def test_old_operators():
    text = """g (float[2, 3, 5, 6] x) => (float[2, 7] y) <float[4] u = {1, 1, 2, 2}, int64[2] f = {0, -1}> {
        c = Conv (x, w) d = Upsample (c, u) e = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
        r = Reshape (e, f) y = MatMul (r, m)
    }"""
    result = converted(network(text, opset=9, w=WEIGHTS["w2"], m=numbers(48, 7)))
    assert operators(result.graph) == ["Transpose", "Conv", "Upsample", "MaxPool", "Reshape", "MatMul"]


def test_types_and_layouts_stay_annotated():
    model = family("residual")
    for node in model.graph:
        set_datatype(node.outputs[0], "INT8")
        set_layout(node.outputs[0], "NCHW")
    result = onnx_passes.apply(model, "convert-channels-last{inputs=true, outputs=true}").model
    for node in result.graph:
        assert str(datatype_of(node.outputs[0])) == "INT8"
        assert layout_of(node.outputs[0]) == tuple("NHWC")
