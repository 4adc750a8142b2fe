"""Conversion to lower versions: how each break of meaning is written, what is refused, and that results stay."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.base import Context
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.load import load
from onnx_passes.ops.opsets.breaks import BREAKS
from onnx_passes.ops.opsets.convert import OpsetError, convert_opset
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.testing import assert_same_graph
from tests.helpers.small_models import named
from tests.helpers.thorough import THOROUGH, some
from tests.ops.opsets.test_convert import CASES, assert_same, check, feeds, parse, session

X, X3, XN = (
    "(float[2,3] x) => (float[2,3] y)",
    "(float[2,3,4] x) => (float[2,3,4] y)",
    "(float[2,3] x) => (float[n,m] y)",
)
IMAGE, TWICE = "(float[1,2,5,5] x) => (float[1,2,h,w] y)", "(float[1,1,2,3] x) => (float[1,1,4,6] y)"
SCALES = "<float[4] s = {1, 1, 2, 2}>"
AXES, TEN = "<int64[1] a = {1}>", "<float s = {0.1}, uint8 z = {10}>"
POINT = "<float[1,4] r = {0, 0, 2, 2}, int64[1] i = {0}>"
SCATTERED = "<int64[1,3] i = {0, 1, 1}, float[1,3] u = {1, 2, 3}>"
BN = "<float[3] s = {1, 2, 3}, float[3] b = {0.1, 0.2, 0.3}, float[3] m = {0, 1, 2}, float[3] v = {1, 2, 3}>"
REDUCED = "(float[2,3] x) => (float[2,1] y)"
COMPARED = "(float[2,3] x, float[2,3] z) => (bool[2,3] y)"


def held(name: str, type_: str, *numbers: float) -> str:
    return f"{name} = Constant <value = {type_} {{{', '.join(map(str, numbers))}}}> ()"


WRITTEN: dict[tuple[str, int], tuple[str, str, str, str]] = {
    **{
        (name, 13): (
            X3,
            "",
            f"y = {name} <axis = 1> (x)",
            f"t = Transpose <perm = [0,2,1]> (x) s = {name} <axis = 2> (t) y = Transpose <perm = [0,2,1]> (s)",
        )
        for name in ("Softmax", "LogSoftmax", "Hardmax")
    },
    **{
        (f"Reduce{name}", 18): (
            REDUCED,
            AXES,
            f"y = Reduce{name} <noop_with_empty_axes = 1> (x, a)",
            f"y = Reduce{name} <axes = [1]> (x)",
        )
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
    **{(name, 8): (X, "", f"y = {name} (x, x)", f"y = {name} (x, x)") for name in ("Max", "Mean", "Min", "Sum")},
    ("AveragePool", 19): (
        IMAGE,
        "",
        "y = AveragePool <kernel_shape = [3,3], dilations = [1,1]> (x)",
        "y = AveragePool <kernel_shape = [3,3]> (x)",
    ),
    ("BatchNormalization", 14): (
        X3,
        BN,
        "y = BatchNormalization <training_mode = 0> (x, s, b, m, v)",
        "y = BatchNormalization (x, s, b, m, v)",
    ),
    ("Cast", 19): (X, "", "y = Cast <to = 1, saturate = 0> (x)", "y = Cast <to = 1> (x)"),
    ("Cast", 24): (X, "", 'y = Cast <to = 1, round_mode = "down"> (x)', "y = Cast <to = 1> (x)"),
    ("CastLike", 15): (X, "<float z = {1}>", "y = CastLike (x, z)", "y = Cast <to = 1> (x)"),
    ("CastLike", 19): (X, "<float z = {1}>", "y = CastLike <saturate = 0> (x, z)", "y = CastLike (x, z)"),
    ("CastLike", 24): (X, "<float z = {1}>", 'y = CastLike <round_mode = "down"> (x, z)', "y = CastLike (x, z)"),
    ("Clip", 11): (X, "<float z = {0.5}>", "y = Clip (x, , z)", "y = Clip <min = -inf, max = 0.5> (x)"),
    ("Constant", 12): (
        XN,
        "",
        "c = Constant <value_float = 1.5> () y = Mul (x, c)",
        held("c", "float", 1.5) + " y = Mul (x, c)",
    ),
    ("ConvTranspose", 11): (
        IMAGE,
        "<float[2,2,1,1] w = {1, 2, 3, 4}>",
        "y = ConvTranspose <strides = [2,2]> (x, w)",
        "y = ConvTranspose <strides = [2,2]> (x, w)",
    ),
    ("DFT", 20): ("(float[1,4,4,1] x) => (float[1,4,4,2] y)", "", "y = DFT (x)", "y = DFT <axis = 2> (x)"),
    ("DequantizeLinear", 13): (
        "(uint8[2,3] x) => (float[2,3] y)",
        TEN,
        "y = DequantizeLinear <axis = 0> (x, s, z)",
        "y = DequantizeLinear (x, s, z)",
    ),
    ("DequantizeLinear", 23): (
        "(uint8[2,3] x) => (float[2,3] y)",
        TEN,
        "y = DequantizeLinear <output_dtype = 1> (x, s, z)",
        "y = DequantizeLinear (x, s, z)",
    ),
    ("Dropout", 10): (X, "", "y = Dropout <ratio = 0.25> (x)", "y = Dropout <ratio = 0.25> (x)"),
    ("Dropout", 12): (
        X,
        "<float r = {0.25}, bool t = {0}>",
        "y = Dropout <seed = 3> (x, r, t)",
        "y = Dropout <ratio = 0.25> (x)",
    ),
    ("Gather", 11): (
        "(float[2,3] x) => (float[2,1] y)",
        "<int64[1] a = {-1}>",
        "y = Gather <axis = 1> (x, a)",
        held("c", "int64[1]", 2) + " y = Gather <axis = 1> (x, c)",
    ),
    ("Gemm", 11): (
        "(float[2,3] x) => (float[2,2] y)",
        "<float[3,2] w = {1, 2, 3, 4, 5, 6}>",
        "y = Gemm <alpha = 0.5, beta = 3.0> (x, w)",
        held("c", "float[1]", -0.0) + " y = Gemm <alpha = 0.5> (x, w, c)",
    ),
    ("GreaterOrEqual", 12): (
        "(int64[2,3] x, int64[2,3] z) => (bool[2,3] y)",
        "",
        "y = GreaterOrEqual (x, z)",
        "g = Greater (x, z) e = Equal (x, z) y = Or (g, e)",
    ),
    ("LessOrEqual", 12): (COMPARED, "", "y = LessOrEqual (x, z)", "g = Less (x, z) e = Equal (x, z) y = Or (g, e)"),
    ("GridSample", 20): (
        "(float[1,1,3,3] x) => (float[1,1,1,2] y)",
        "<float[1,1,2,2] g = {0.1, 0.2, 0.3, 0.4}>",
        "y = GridSample (x, g)",
        'y = GridSample <mode = "bilinear"> (x, g)',
    ),
    ("LpPool", 18): (
        IMAGE,
        "",
        "y = LpPool <kernel_shape = [2,2], dilations = [1,1], ceil_mode = 0> (x)",
        "y = LpPool <kernel_shape = [2,2]> (x)",
    ),
    ("MaxPool", 22): (
        IMAGE,
        "",
        "y = MaxPool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (x)",
        "y = MaxPool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (x)",
    ),
    ("MaxPool", 10): (
        IMAGE,
        "",
        "y = MaxPool <kernel_shape = [2,2], dilations = [1,1], ceil_mode = 0> (x)",
        "y = MaxPool <kernel_shape = [2,2]> (x)",
    ),
    ("OneHot", 11): (
        "(float[2] x) => (float[1,3] y)",
        "<int64[1] i = {2}, int64 d = {3}>",
        "y = OneHot (i, d, x)",
        "y = OneHot (i, d, x)",
    ),
    ("Pad", 11): (
        XN,
        "<int64[4] p = {1, 0, 0, 1}, float v = {0.25}>",
        "y = Pad (x, p, v)",
        "y = Pad <pads = [1,0,0,1], value = 0.25> (x)",
    ),
    ("Pad", 18): (
        XN,
        "<int64[2] p = {1, 2}, float v = {0.25}, int64[1] a = {-1}>",
        "y = Pad (x, p, v, a)",
        held("c", "int64[4]", 0, 1, 0, 2) + " y = Pad (x, c, v)",
    ),
    ("Pad", 19): (
        XN,
        "<int64[4] p = {1, 0, 0, 1}>",
        'y = Pad <mode = "edge"> (x, p)',
        'y = Pad <mode = "edge"> (x, p)',
    ),
    ("QuantizeLinear", 13): (
        "(float[2,3] x) => (uint8[2,3] y)",
        TEN,
        "y = QuantizeLinear <axis = 0> (x, s, z)",
        "y = QuantizeLinear (x, s, z)",
    ),
    ("QuantizeLinear", 19): (
        "(float[2,3] x) => (uint8[2,3] y)",
        TEN,
        "y = QuantizeLinear <saturate = 0> (x, s, z)",
        "y = QuantizeLinear (x, s, z)",
    ),
    ("QuantizeLinear", 21): (
        "(float[2,3] x) => (int8[2,3] y)",
        "<float s = {0.1}>",
        "y = QuantizeLinear <output_dtype = 3> (x, s)",
        held("c", "int8", 0) + " y = QuantizeLinear (x, s, c)",
    ),
    ("ReduceSum", 13): (
        "(float[2,3] x) => (float[1,1] y)",
        "<int64[0] a = {}>",
        "y = ReduceSum (x, a)",
        "y = ReduceSum (x)",
    ),
    ("Reshape", 14): (
        "(float[2,3] x) => (float[3,2] y)",
        "<int64[2] a = {3, 2}>",
        "y = Reshape <allowzero = 1> (x, a)",
        "y = Reshape (x, a)",
    ),
    ("Resize", 10): (TWICE, SCALES, "y = Resize (x, s)", 'y = Upsample <mode = "nearest"> (x, s)'),
    ("Resize", 11): (
        TWICE,
        "<float[0] r = {}, float[0] s = {}, int64[4] n = {1, 1, 4, 6}>",
        'y = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, r, s, n)',
        held("c", "float[4]", 1, 1, 2, 2) + ' y = Resize <mode = "linear"> (x, c)',
    ),
    ("Resize", 13): (
        TWICE,
        SCALES,
        "y = Resize (x, , s)",
        held("c", "float[0]") + " y = Resize (x, c, s)",
    ),
    ("Resize", 18): (
        TWICE,
        "<float[2] s = {2, 2}>",
        'y = Resize <axes = [2,3], antialias = 0, keep_aspect_ratio_policy = "stretch"> (x, , s)',
        held("c", "float[4]", 1, 1, 2, 2) + " y = Resize (x, , c)",
    ),
    ("Resize", 19): (TWICE, SCALES, "y = Resize (x, , s)", "y = Resize (x, , s)"),
    ("RoiAlign", 16): (
        "(float[1,1,4,4] x) => (float[1,1,1,2] y)",
        POINT,
        'y = RoiAlign <output_width = 2, coordinate_transformation_mode = "output_half_pixel"> (x, r, i)',
        "y = RoiAlign <output_width = 2> (x, r, i)",
    ),
    ("ScatterElements", 11): (
        X,
        "<int64[1,3] i = {0, 1, 1}, float[1,3] u = {1, 2, 3}>",
        "y = ScatterElements (x, i, u)",
        "y = Scatter (x, i, u)",
    ),
    ("ScatterElements", 18): (
        X,
        SCATTERED,
        'y = ScatterElements <reduction = "add"> (x, i, u)',
        'y = ScatterElements <reduction = "add"> (x, i, u)',
    ),
    ("ScatterND", 18): (
        X,
        "<int64[1,1] i = {1}, float[1,3] u = {1, 2, 3}>",
        'y = ScatterND <reduction = "mul"> (x, i, u)',
        'y = ScatterND <reduction = "mul"> (x, i, u)',
    ),
    ("Shape", 15): (
        "(float[2,3] x) => (int64[1] y)",
        "",
        "y = Shape <start = 1> (x)",
        f"{held('b', 'int64[1]', 1)} {held('e', 'int64[1]', 2**63 - 1)} {held('a', 'int64[1]', 0)}"
        " w = Shape (x) y = Slice (w, b, e, a)",
    ),
    ("Slice", 10): (
        "(float[2,3] x) => (float[2,2] y)",
        "<int64[1] b = {1}, int64[1] e = {3}, int64[1] a = {1}, int64[1] t = {1}>",
        "y = Slice (x, b, e, a, t)",
        "y = Slice <starts = [1], ends = [3], axes = [1]> (x)",
    ),
    ("Slice", 11): (
        "(float[2,3] x) => (float[2,2] y)",
        "<int64[1] b = {1}, int64[1] e = {3}, int64[1] a = {-1}>",
        "y = Slice (x, b, e, a)",
        held("c", "int64[1]", 1) + " y = Slice (x, b, e, c)",
    ),
    ("Split", 18): (
        "(float[5] x) => (float[3] y, float[2] z)",
        "",
        "y, z = Split <num_outputs = 2> (x)",
        held("c", "int64[2]", 3, 2) + " y, z = Split (x, c)",
    ),
    ("TopK", 10): (
        "(float[2,3] x) => (float[2,2] y, int64[2,2] i)",
        "<int64[1] k = {2}>",
        "y, i = TopK (x, k)",
        "y, i = TopK <k = 2> (x)",
    ),
}

REFUSED: dict[tuple[str, int], tuple[str, str, str]] = {
    ("GroupNormalization", 21): (
        "(float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2] s = {1, 2}, float[2] b = {0, 1}>",
        "y = GroupNormalization <num_groups = 1> (x, s, b)",
        "scale and bias are those of channels",
    ),
    ("BatchNormalization", 14): (
        f"{X3}{BN}",
        "y, n, o = BatchNormalization <training_mode = 1> (x, s, b, m, v)",
        "it is in training mode",
    ),
    ("Dropout", 12): (f"{X}<float r = {{0.5}}, bool t = {{1}}>", "y = Dropout (x, r, t)", "it may be in training mode"),
    ("Pad", 19): (f"{XN}<int64[4] p = {{1, 0, 0, 1}}>", 'y = Pad <mode = "wrap"> (x, p)', "mode 'wrap'"),
    ("Slice", 10): (
        "(float[2,3] x) => (float[2,2] y) <int64[1] b = {0}, int64[1] e = {3}, int64[1] a = {1}, int64[1] t = {2}>",
        "y = Slice (x, b, e, a, t)",
        "opset 9 has no steps (they are [2])",
    ),
    ("Reshape", 14): (
        "(float[0,3] x) => (float[3,0] y) <int64[2] a = {3, 0}>",
        "y = Reshape <allowzero = 1> (x, a)",
        "allowzero",
    ),
    ("Resize", 11): (
        f"{TWICE}<float[0] r = {{}}, float[4] s = {{1, 1, 2, 2}}>",
        "y = Resize (x, r, s)",
        "opset 10 does not resize in mode 'nearest' with coordinates 'half_pixel'",
    ),
    ("Resize", 18): (f"{TWICE}{SCALES}", "y = Resize <antialias = 1> (x, , s)", "no attribute 'antialias' (it is 1)"),
    ("QuantizeLinear", 13): (
        "(float[2,3] x) => (uint8[2,3] y) <float[3] s = {1, 2, 3}, uint8[3] z = {0, 0, 0}>",
        "y = QuantizeLinear (x, s, z)",
        "scales of channels need opset 13",
    ),
    ("AveragePool", 19): (
        IMAGE,
        "y = AveragePool <kernel_shape = [2,2], strides = [2,2], ceil_mode = 1, count_include_pad = 1> (x)",
        "ceil_mode with count_include_pad",
    ),
    ("ScatterND", 18): (
        f"{X}<int64[1,1] i = {{1}}, float[1,3] u = {{1, 2, 3}}>",
        'y = ScatterND <reduction = "max"> (x, i, u)',
        "opset 17 does not reduce by 'max'",
    ),
    ("OneHot", 11): (
        "(int64[1] x) => (float[1,3] y) <int64 d = {3}, float[2] v = {0, 1}>",
        "y = OneHot (x, d, v)",
        "its indices may be negative",
    ),
    ("RoiAlign", 16): (
        f"(float[1,1,4,4] x) => (float[1,1,2,2] y){POINT}",
        "y = RoiAlign <output_height = 2, output_width = 2> (x, r, i)",
        "opset 15 has no coordinate_transformation_mode 'half_pixel'",
    ),
    ("ConvTranspose", 11): (
        f"{IMAGE}<float[2,2,1,1] w = {{1, 2, 3, 4}}>",
        'y = ConvTranspose <auto_pad = "SAME_UPPER"> (x, w)',
        "opset 10 pads the other side",
    ),
    ("GridSample", 20): (
        "(float[1,1,2,2,2] x) => (float[1,1,1,1,1] y) <float[1,1,1,1,3] g = {0, 0, 0}>",
        "y = GridSample (x, g)",
        "opset 19 samples two axes only",
    ),
    ("AveragePool", 22): (
        IMAGE,
        "y = AveragePool <kernel_shape = [2,2], strides = [3,3], pads = [0,0,1,1], ceil_mode = 1> (x)",
        "opset 21 pools windows that start in the padding",
    ),
    ("Mod", 28): ("(float[2] x) => (float[2] y)", "y = Mod (x, x)", "opset 27 takes integers only, unless fmod is set"),
    ("Trilu", 14): (X, "y = Trilu (x)", "there is no Trilu below opset 14"),
    ("GRU", 14): (
        "(float[1,3,2] x) => (float[1,3,1,1] y) <float[1,3,2] w = {1, 2, 3, 4, 5, 6}, float[1,3,1] r = {1, 2, 3}>",
        "y = GRU <hidden_size = 1, layout = 1> (x, w, r)",
        "opset 13 has no attribute 'layout' (it is 1)",
    ),
    ("Mul", 14): (
        "(int8[2] x) => (int8[2] y)",
        "y = Mul (x, x)",
        "opset 13 does not allow 'A' to be tensor(int8)",
    ),
    ("Pow", 12): (
        "(float[2] x, int64[2] z) => (float[2] y)",
        "y = Pow (x, z)",
        "opset 11 does not allow 'Y' to be tensor(int64)",
    ),
    ("MaxPool", 10): (
        IMAGE,
        "y = MaxPool <kernel_shape = [2,2], ceil_mode = 1> (x)",
        "no attribute 'ceil_mode' (it is 1)",
    ),
}

NOT_RUN = {("Cast", 19), ("Cast", 24), ("CastLike", 19)}
"""ONNX Runtime refuses attributes that say nothing of the type at hand, which onnx allows."""


def text(version: int, rest: str, body: str) -> str:
    return f'<ir_version: 10, opset_import: ["" : {version}]> g {rest} {{ {body} }}'


@pytest.mark.parametrize("case", WRITTEN, ids=str)
def test_breaks_are_written_as_the_version_below_does(case):
    _, version = case
    signature, constants, before, after = WRITTEN[case]
    proto = onnx.parser.parse_model(text(version, signature + constants, before))
    model = ir.from_proto(proto)
    convert_opset(model, version - 1)
    wanted = onnx.parser.parse_model(text(version - 1, signature + constants, after))
    read = {name for node in wanted.graph.node for name in node.input}
    kept = [tensor for tensor in wanted.graph.initializer if tensor.name in read]
    del wanted.graph.initializer[:]
    wanted.graph.initializer.extend(kept)
    assert_same_graph(model, ir.from_proto(wanted))
    if case not in NOT_RUN:
        inputs = feeds(proto)
        found = ir.to_proto(model)
        onnx.checker.check_model(found, full_check=True)
        assert_same(session(proto).run(None, inputs), session(found).run(None, inputs))


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_the_version_below_lacks_is_refused_by_what_the_node_uses(case):
    operator, version = case
    rest, body, reason = REFUSED[case]
    model = ir.from_onnx_text(text(version, rest, body))
    before = full_hash(model)
    with pytest.raises(OpsetError) as info:
        convert_opset(model, min(version - 1, 25))
    assert reason in str(info.value)
    assert [(node.op_type, why) for node, why in info.value.refused] == [(operator, info.value.refused[0][1])]
    assert full_hash(model) == before


def test_every_break_has_a_case():
    assert BREAKS.keys() - WRITTEN.keys() - REFUSED.keys() == set()


def test_all_nodes_are_named_with_what_they_use():
    model = ir.from_onnx_text(
        text(18, X, "[a] p = Mish (x) [b] q = Trilu (p) [c] r = Mish (q) [d] y = Relu (r)"),
    )
    with pytest.raises(OpsetError) as info:
        convert_opset(model, 13)
    assert str(info.value).splitlines() == [
        "3 nodes cannot be converted from opset 18 to 13:",
        "  node 'a' (Mish), node 'c' (Mish): there is no Mish below opset 18",
        "  node 'b' (Trilu): there is no Trilu below opset 14; stay with a higher version",
    ]


def test_a_function_that_is_used_keeps_the_format_that_knows_functions():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 21, "q" : 1]>
    g (float[2,3] x) => (float[2,1] y) { y = q.F (x) }
    <opset_import: ["" : 21], domain: "q"> F (a) => (b) { c = Constant <value_ints = [1]> () b = ReduceMean (a, c) }""")
    proto = ir.to_proto(model)
    convert_opset(model, 11)
    assert model.ir_version == 8
    (function,) = model.functions.values()
    assert [(node.op_type, list(node.attributes)) for node in function] == [("ReduceMean", ["axes"])]
    found = ir.to_proto(model)
    assert_same(session(proto).run(None, feeds(proto)), session(found).run(None, feeds(proto)))


def test_results_that_nobody_reads_may_be_of_any_type():
    proto = onnx.parser.parse_model(text(12, "(float[2,3] x) => (float[2,3] y)", "h, mask = Dropout (x) y = Relu (h)"))
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    convert_opset(model, 9)
    assert_same(session(proto).run(None, feeds(proto)), session(ir.to_proto(model)).run(None, feeds(proto)))


def test_subgraphs_go_down_with_the_graph():
    proto = onnx.parser.parse_model(
        text(
            21,
            "(float[2,3] x, bool c) => (float[2,1] y) <int64[1] a = {-1}>",
            "y = If (c) <then_branch = t () => (float[2,1] p) { p = ReduceMax (x, a) },"
            " else_branch = e () => (float[2,1] q) { q = ReduceMin (x, a) }>",
        )
    )
    model = ir.from_proto(proto)
    convert_opset(model, 9)
    assert not model.graph.initializers
    found = ir.to_proto(model)
    onnx.checker.check_model(found, full_check=True)
    assert_same(session(proto).run(None, feeds(proto)), session(found).run(None, feeds(proto)))


@pytest.mark.parametrize("case", some(CASES, every=3))
def test_what_went_up_comes_down_again(case):
    version, signature, body = CASES[case]
    proto = parse(version, signature, body)
    inputs = feeds(proto)
    model = ir.from_proto(proto)
    convert_opset(model, 25)
    for target in (17, 12, 9):
        ConvertOpset(version=max(target, version)).run(model, Context())
    check(model, inputs, session(proto).run(None, inputs))


def backend_cases() -> list[tuple[str, onnx.ModelProto, list[np.ndarray]]]:
    """Return the models by which onnx shows what each operator does, with inputs of arrays alone."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in collect_testcases(None) if case.data_sets and "bernoulli" not in case.name]
    plain = [case for case in cases if all(isinstance(x, np.ndarray | np.generic) for x in case.data_sets[0][0])]
    return [(case.name, case.model, [np.asarray(x) for x in case.data_sets[0][0]]) for case in plain]


def fixed(proto: onnx.ModelProto, inputs: list[np.ndarray]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Make small inputs behind the first one constant, as axes, shapes and bounds mostly are."""
    model, left = ir.from_proto(proto), dict[str, np.ndarray]()
    for index, (value, array) in enumerate(zip(list(model.graph.inputs), inputs, strict=True)):
        if index and array.size <= 8 and array.dtype.kind in "iufb":
            value.const_value = ir.Tensor(array, name=value.name)
            model.graph.inputs.remove(value)
            model.graph.register_initializer(value)
        else:
            left[str(value.name)] = array
    return ir.to_proto(model), left


def results_of(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | str:
    """Run a model, or say why ONNX Runtime does not."""
    try:
        return session(proto).run(None, inputs)
    except Exception as error:  # noqa: BLE001 - not all that onnx defines runs in ONNX Runtime
        return str(error)


@pytest.mark.skipif(not THOROUGH, reason="makes 1900 models")
def test_operators_of_onnx_go_down_as_far_as_they_mean_the_same():
    converted = refused = 0
    for name, given, arrays in backend_cases():
        proto, inputs = fixed(given, arrays)
        expected = results_of(proto, inputs)
        for target in () if isinstance(expected, str) else (24, 20, 17, 12, 9):
            model = ir.from_proto(proto)
            if target >= model.opset_imports.get("", 0):
                continue
            try:
                convert_opset(model, target)
            except ModelError:
                refused += 1
                continue
            results = results_of(ir.to_proto(model), inputs)
            if isinstance(results, str):
                assert "NOT_IMPLEMENTED" in results, f"{name} in opset {target}: {results}"
                continue
            onnx.checker.check_model(ir.to_proto(model), full_check=True)
            assert_same(expected, results)
            converted += 1
    assert converted > refused > 0


LOWEST = {
    "float/small_cnn": (17, 13, 9),
    "float/small_residual": (13, 9),
    "float/small_lstm": (13, 11, 9),
    "float/small_branches": (13, 9),
    "float/small_loop": (13, 9),
    "float/small_upsampler": (13, 11),
    "float/small_perceptron": (17, 11, 9),
    "float/efficientnet_mini__dy": (17, 13, 9),
    "float/gru_2l__ts": (13, 11, 9),
    "float/script_loop_if__ts": (13, 9),
    "float/swift_f0": (17, 13),
    "float/ppocrv6_det_tiny": (11, 9),
}
"""The versions that these networks can be written in."""


@pytest.mark.parametrize(("path", "targets"), named(LOWEST), indirect=["path"])
def test_networks_go_down_and_give_the_same_results(path, targets):
    proto = ir.to_proto(load(path))
    inputs = {key: np.asarray(np.abs(array)) for key, array in feeds(proto).items()}
    if path.stem == "ppocrv6_det_tiny":
        inputs = {"x": np.resize(inputs["x"], (1, 3, 64, 64))}
    expected = session(proto).run(None, inputs)
    for target in targets:
        model = ir.from_proto(proto)
        assert ConvertOpset(version=target).run(model, Context()).modified
        assert model.opset_imports[""] == target
        assert_same(expected, session(ir.to_proto(model)).run(None, inputs))
