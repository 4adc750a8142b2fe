"""Conversion between opsets: same results in ONNX Runtime, and nothing lost on the way."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.core.errors import ModelError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.load import load
from onnx_passes.ops.opsets.convert import convert_opset, target_versions
from tests.helpers.small_models import files

X23, X234, Y23 = "(float[2,3] x) => (float[2,3] y)", "(float[2,3,4] x) => (float[2,3,4] y)", "float[2,3] x"
BN = "<float[3] s = {1, 2, 3}, float[3] b = {0.1, 0.2, 0.3}, float[3] m = {0, 1, 2}, float[3] v = {1, 2, 3}>"

CASES = {
    "clip": (7, X23, "y = Clip <min = -0.5, max = 0.5> (x)"),
    "clip min": (7, X23, "y = Clip <min = -0.5> (x)"),
    "clip max": (7, X23, "y = Clip <max = 0.5> (x)"),
    "clip nothing": (7, X23, "y = Clip (x)"),
    "clip half": (7, "(float16[2,3] x) => (float16[2,3] y)", "y = Clip <min = -0.5, max = 0.5> (x)"),
    "pad": (7, f"({Y23}) => (float[4,6] y)", "y = Pad <pads = [1,1,1,2], value = 0.25> (x)"),
    "pad zero": (7, f"({Y23}) => (float[4,6] y)", "y = Pad <pads = [1,1,1,2]> (x)"),
    "pad double": (7, "(double[2,3] x) => (double[4,6] y)", "y = Pad <pads = [1,1,1,2], value = 0.25> (x)"),
    "pad reflect": (7, f"({Y23}) => (float[2,5] y)", 'y = Pad <pads = [0,1,0,1], mode = "reflect"> (x)'),
    "slice": (7, "(float[4,6] x) => (float[2,3] y)", "y = Slice <axes = [0,1], starts = [1,0], ends = [3,-3]> (x)"),
    "slice all axes": (7, "(float[4,6] x) => (float[2,3] y)", "y = Slice <starts = [1,0], ends = [3,3]> (x)"),
    "top k": (7, "(float[4,6] x) => (float[4,2] y, int64[4,2] i)", "y, i = TopK <k = 2> (x)"),
    "squeeze": (7, "(float[1,3,1] x) => (float[3] y)", "y = Squeeze <axes = [0,2]> (x)"),
    "squeeze all": (7, "(float[1,3,1] x) => (float[3] y)", "y = Squeeze (x)"),
    "unsqueeze": (7, "(float[3] x) => (float[1,3,1] y)", "y = Unsqueeze <axes = [0,2]> (x)"),
    "reduce sum": (7, "(float[2,3,4] x) => (float[2,4] y)", "y = ReduceSum <axes = [1], keepdims = 0> (x)"),
    "reduce sum all": (7, "(float[2,3,4] x) => (float[1,1,1] y)", "y = ReduceSum (x)"),
    **{
        f"reduce {kind}": (7, "(float[2,3,4] x) => (float[2,1,1] y)", f"y = Reduce{kind} <axes = [1,2]> (x)")
        for kind in ("Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    },
    "reduce negative": (11, "(float[2,3,4] x) => (float[2,3] y)", "y = ReduceMean <axes = [-1], keepdims = 0> (x)"),
    "split": (7, "(float[2,6] x) => (float[2,2] a, float[2,4] b)", "a, b = Split <axis = 1, split = [2,4]> (x)"),
    "split evenly": (7, "(float[2,6] x) => (float[2,3] a, float[2,3] b)", "a, b = Split <axis = 1> (x)"),
    **{
        f"{kind} {axis}": (11, X234, f"y = {kind} <axis = {axis}> (x)")
        for kind in ("Softmax", "LogSoftmax", "Hardmax")
        for axis in (0, 1, 2, -2)
    },
    "softmax default": (7, X234, "h = Relu(x) y = Softmax (h)"),
    "batch normalization": (7, X234 + BN, "y = BatchNormalization <epsilon = 0.001, spatial = 1> (x, s, b, m, v)"),
    "batch normalization 9": (9, X234 + BN, "y = BatchNormalization (x, s, b, m, v)"),
    "dropout": (7, X23, "y = Dropout <ratio = 0.3> (x)"),
    "dropout unused mask": (7, X23, "h, m = Dropout (x) y = Neg(h)"),
    **{
        f"upsample {version} {mode}": (
            version,
            "(float[1,1,2,3] x) => (float[1,1,4,6] y)" + ("" if version < 9 else "<float[4] s = {1, 1, 2, 2}>"),
            f'y = Upsample <mode = "{mode}"{", scales = [1.0,1.0,2.0,2.0]" if version < 9 else ""}>'
            f" (x{'' if version < 9 else ', s'})",
        )
        for version in (7, 9)
        for mode in ("nearest", "linear")
    },
    **{
        f"resize {scale} {mode}": (
            10,
            f"(float[1,1,6,6] x) => (float[1,1,{size},{size}] y) <float[4] s = {{1, 1, {scale}, {scale}}}>",
            f'y = Resize <mode = "{mode}"> (x, s)',
        )
        for scale, size in ((1.5, 9), (0.7, 4))
        for mode in ("nearest", "linear")
    },
    "resize 11": (
        11,
        "(float[1,1,2,3] x) => (float[1,1,4,6] y) <float[0] r = {}, float[4] s = {1, 1, 2, 2}>",
        'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, r, s)',
    ),
    "scatter": (
        9,
        "(float[3,3] x) => (float[3,3] y) <int64[1,3] i = {0, 1, 2}, float[1,3] u = {1, 2, 3}>",
        "y = Scatter <axis = 0> (x, i, u)",
    ),
    "average pool": (
        7,
        "(float[1,2,5,5] x) => (float[1,2,3,3] y)",
        "y = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1> (x)",
    ),
    "max pool": (
        8,
        "(float[1,2,5,5] x) => (float[1,2,3,3] y, int64[1,2,3,3] i)",
        "y, i = MaxPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x)",
    ),
    "grid sample": (
        16,
        "(float[1,1,3,3] x) => (float[1,1,1,2] y) <float[1,1,2,2] g = {0.1, 0.2, 0.3, 0.4}>",
        'y = GridSample <mode = "bicubic"> (x, g)',
    ),
    "dft": (17, "(float[1,4,4,1] x) => (float[1,4,4,2] y)", "y = DFT <axis = 2> (x)"),
    "gemm": (
        7,
        "(float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] c = {1, 2}>",
        "y = Gemm <alpha = 0.5> (x, w, c)",
    ),
    "gru": (
        7,
        "(float[3,1,2] x) => (float[3,1,1,1] y) <float[1,3,2] w = {1, 2, 3, 4, 5, 6}, float[1,3,1] r = {1, 2, 3}>",
        "y = GRU <hidden_size = 1> (x, w, r)",
    ),
    "quantize": (
        10,
        "(float[2,3] x) => (uint8[2,3] y) <float s = {0.1}, uint8 z = {128}>",
        "y = QuantizeLinear (x, s, z)",
    ),
    "elementwise": (
        7,
        X23 + "<float[3] s = {0.1, 0.2, 0.3}, float two = {2}>",
        "a = Add(x, s) b = Mul(a, x) c = Sub(b, s) d = Div(c, s) e = Sigmoid(d) f = Pow(e, two) y = PRelu(f, s)",
    ),
    "data movement": (
        8,
        "(float[2,3] x) => (float[6,4] y) <int64[2] s = {-1, 2}, int64[2] i = {0, 2}>",
        """a = Transpose (x) b = Reshape (a, s) c = Concat <axis = 1> (b, b) d = Gather <axis = 0> (c, i)
        e = Flatten <axis = 1> (d) y = Concat <axis = 0> (e, e, e)""",
    ),
    "constants": (12, X23, "c = Constant <value_float = 1.5> () y = Mul (x, c)"),
    "branches": (
        8,
        "(float[2,3] x, bool c) => (float[2,3] y)",
        """y = If (c) <
          then_branch = t () => (float[2,3] a) { a = Clip <min = 0.0> (x) },
          else_branch = e () => (float[2,3] b) { b = Softmax <axis = 0> (x) }
        >""",
    ),
    "loop": (
        9,
        "(float[2] x) => (float[2] y)",
        """n = Constant <value = int64 {3}> () c = Constant <value = bool {1}> ()
        y = Loop (n, c, x) <body = b (int64 i, bool ci, float[2] a) => (bool co, float[2] ao) {
          co = Identity (ci) u = Unsqueeze <axes = [0]> (a) s = Squeeze <axes = [0]> (u) ao = Add (s, s)
        }>""",
    ),
}


def parse(version: int, signature: str, body: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {version}]> g {signature} {{ {body} }}')
    onnx.checker.check_model(model, full_check=True)
    return model


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    given = {tensor.name for tensor in model.graph.initializer}
    made = {}
    for value in model.graph.input:
        if value.name in given:
            continue
        shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        array = rng.standard_normal(shape)
        made[value.name] = np.asarray(array > 0 if dtype.kind == "b" else array).astype(dtype)
    return made


def assert_same(expected: list[np.ndarray], found: list[np.ndarray], exact: bool = False) -> None:
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, list):
            assert_same(a, b, exact)
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if exact or a.dtype.kind not in "f":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def check(model: ir.Model, inputs: dict[str, np.ndarray], expected: list[np.ndarray]) -> None:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert_same(expected, session(proto).run(None, inputs))


@pytest.mark.parametrize("case", CASES)
def test_results_stay_the_same_at_once_and_step_by_step(case):
    version, signature, body = CASES[case]
    proto = parse(version, signature, body)
    inputs = feeds(proto)
    expected = session(proto).run(None, inputs)
    direct = ir.from_proto(proto)
    assert convert_opset(direct, 25) is direct
    assert direct.opset_imports[""] == 25
    check(direct, inputs, expected)
    stepwise = ir.from_proto(proto)
    for step in range(version + 1, 26):
        before = full_hash(stepwise)
        convert_opset(stepwise, step)
        assert stepwise.opset_imports[""] == step
        if full_hash(stepwise) != before and step in (8, 9, 10, 11, 13, 18, 20, 25):
            check(stepwise, inputs, expected)


@pytest.mark.parametrize(
    "case", ["clip", "softmax default", "Hardmax 1", "pad", "upsample 7 linear", "dropout", "split"]
)
def test_results_stay_the_same_without_types_and_shapes(case):
    version, signature, body = CASES[case]
    proto = parse(
        version, signature, body.replace("y = ", "r = ", 1) + " y = Identity (r)" if "a, b" not in body else body
    )
    inputs = feeds(proto)
    model = ir.from_proto(proto)
    for value in annotations.values(model.graph):
        value.type = value.shape = None
    convert_opset(model, 21)
    for value, known in zip(model.graph.inputs, ir.from_proto(proto).graph.inputs, strict=True):
        value.type, value.shape = known.type, known.shape
    for value, known in zip(model.graph.outputs, ir.from_proto(proto).graph.outputs, strict=True):
        value.type, value.shape = known.type, known.shape
    assert_same(session(proto).run(None, inputs), session(ir.to_proto(model)).run(None, inputs))


@pytest.mark.parametrize(
    ("source", "target", "signature", "body"),
    [
        (13, 11, "(float[1,3] x) => (float[3] y) <int64[1] a = {0}>", "y = Squeeze (x, a)"),
        (13, 8, "(float[3] x) => (float[3,1] y) <int64[1] a = {-1}>", "y = Unsqueeze (x, a)"),
        (13, 9, "(float[2,3,4] x) => (float[2,4] y) <int64[1] a = {-2}>", "y = ReduceSum <keepdims = 0> (x, a)"),
        (18, 13, "(float[2,3] x) => (float[2,1] y) <int64[1] a = {1}>", "y = ReduceMean (x, a)"),
        (13, 7, X234, "y = Softmax <axis = -1> (x)"),
        (11, 8, X23, "c = Constant <value = float {2}> () y = Mul (x, c)"),
        (13, 9, X234, "y = Hardmax <axis = 2> (x)"),
        (25, 21, X23, "a = Identity (x) c = Constant <value = float {2}> () b = Mul (a, c) y = Relu (b)"),
        (20, 19, "(float[1,4,4,1] x) => (float[1,4,4,2] y) <int64 a = {2}>", "y = DFT (x, , a)"),
        (9, 8, "(float[1,1,2,3] x) => (float[1,1,4,6] y) <float[4] s = {1, 1, 2, 2}>", "y = Upsample (x, s)"),
        (
            21,
            18,
            X23,
            "c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => (float[2,3] a)"
            " { a = Neg (x) }, else_branch = e () => (float[2,3] b) { b = Abs (x) }>",
        ),
    ],
)
def test_models_can_go_down_where_an_equivalent_exists(source, target, signature, body):
    proto = parse(source, signature, body)
    inputs = feeds(proto)
    model = ir.from_proto(proto)
    convert_opset(model, target)
    assert model.opset_imports[""] == target
    check(model, inputs, session(proto).run(None, inputs))


@pytest.mark.parametrize(
    ("source", "target", "signature", "body", "reason"),
    [
        (
            13,
            12,
            "(float x) => (float y)",
            "h = Relu (x) [n] y = Softmax <axis = 1> (h)",
            "node 'n' (Softmax) cannot be converted from opset 13 to 12: the rank is not known",
        ),
        (
            10,
            12,
            "(float[2,3] x) => (float[2,3] y, bool[2,3] m)",
            "h = Clip <min = 0.0> (x) y, m = Dropout (h)",
            "its mask does not mean the same",
        ),
        (
            17,
            16,
            "(float[2,3] x) => (float[2,3] y) <float[3] s = {1, 2, 3}>",
            "y = LayerNormalization (x, s)",
            "there is no LayerNormalization below opset 17",
        ),
        (
            13,
            12,
            "(float[1,3] x, int64[1] a) => (float[n] y)",
            "y = Squeeze (x, a)",
            "'axes' is not constant",
        ),
        (
            10,
            11,
            "(float[1,1,2,3] x, float[4] s) => (float[a,b,c,d] y)",
            "y = Resize (x, s)",
            "scales are not constant",
        ),
        (
            10,
            11,
            "(float[1,1,4,4] x) => (float[1,1,8,2] y) <float[4] s = {1, 1, 2, 0.5}>",
            "y = Resize (x, s)",
            "enlarges one axis and shrinks another",
        ),
        (
            9,
            8,
            "(int64[2,2] x) => (int64[2,2] y)",
            "y = MatMul (x, x)",
            "opset 8 does not allow 'A' to be tensor(int64)",
        ),
        (
            13,
            11,
            "(float[2,3] x) => (float[2,3] y) <int64[0] a = {}>",
            "y = ReduceSum <noop_with_empty_axes = 1> (x, a)",
            "noop_with_empty_axes",
        ),
        (
            16,
            15,
            "(bool c, optional(float[2]) o) => (optional(float[2]) y)",
            "y = If (c) <then_branch = t () => (optional(float[2]) a) { a = Identity (o) },"
            " else_branch = e () => (optional(float[2]) b) { b = Identity (o) }>",
            "optional(tensor(float))",
        ),
    ],
)
def test_what_has_no_equivalent_is_refused_and_left_alone(source, target, signature, body, reason):
    text = f'<ir_version: 8, opset_import: ["" : {source}]> g {signature} {{ {body} }}'
    model = ir.from_onnx_text(text)
    before = full_hash(model)
    with pytest.raises(ModelError) as info:
        convert_opset(model, target)
    assert reason in str(info.value)
    assert full_hash(model) == before


def untyped_clip() -> ir.Model:
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 10]> g (float16[2] x) => (float16[2] y) { a = Neg (x)'
        " y = Clip <min = 0.0> (a) }"
    )
    assert model.graph[0].outputs[0].type is None
    return model


def test_bounds_of_data_of_unknown_type_are_cast_to_it_or_refused():
    with pytest.raises(ModelError, match="the type of its data is not known"):
        convert_opset(untyped_clip(), 14)
    inputs = {"x": np.array([-1, 2], np.float16)}
    expected = session(ir.to_proto(untyped_clip())).run(None, inputs)
    check(convert_opset(untyped_clip(), 15), inputs, expected)


def test_unknown_operators_and_versions_are_refused():
    model = ir.from_onnx_text(f'<ir_version: 8, opset_import: ["" : 13]> g {X23} {{ [n] y = Gelu (x) }}')
    with pytest.raises(ModelError, match=r"node 'n' \(Gelu\) is no operator of opset 13"):
        convert_opset(model, 14)
    for version in (6, 26):
        with pytest.raises(ModelError, match="choose 7 to 25"):
            convert_opset(model, version)
    assert target_versions() == range(7, 26)


def test_converting_to_the_same_version_changes_nothing():
    model = ir.from_onnx_text(f'<ir_version: 8, opset_import: ["" : 13]> g {X23} {{ y = Relu (x) }}')
    before = full_hash(model)
    convert_opset(model, 13)
    assert full_hash(model) == before


RICH = """<ir_version: 8, opset_import: ["" : 11, "q" : 3], producer_name: "p", metadata_props: ["k": "v"]>
g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
  [up] u = Unsqueeze <axes = [0]> (x)
  [down] s = Squeeze <axes = [0]> (u)
  [custom] b = q.Quant <bits = 4> (s, w)
  [soft] h = Softmax <axis = 0> (b)
  [branch] y = If (c) <
    then_branch = t () => (float[2,3] a) { [inner] a = Clip (h, low) [low] low = Constant <value = float {0}> () },
    else_branch = e () => (float[2,3] d) { [other] d = Identity (h) }
  >
  [drop] z = Dropout <ratio = 0.25> (h)
}
<opset_import: ["" : 11], domain: "q">
Quant <bits> (a, b) => (r) { t = Unsqueeze <axes = [0]> (a) v = Squeeze <axes = [0]> (t) r = Add (v, b) }
"""


@pytest.fixture
def rich() -> ir.Model:
    model = load(RICH.encode())
    graph = model.graph
    graph.doc_string = "about"
    for node in graph.all_nodes():
        node.doc_string = f"doc of {node.name}"
        node.metadata_props["from"] = str(node.name)
        node.meta["mark"] = node.name
    for value in annotations.values(graph):
        annotations.set(value, {"finn_datatype": f"of {value.name}"})
        value.metadata_props["is"] = str(value.name)
    return model


def test_everything_but_the_operators_is_kept(rich):
    graph = rich.graph
    nodes = list(graph.all_nodes())
    values = list(annotations.values(graph))
    names = [node.name for node in nodes]
    weight = graph.initializers["w"].const_value
    convert_opset(rich, 21)
    assert rich.graph is graph
    kept = [node for node in graph.all_nodes() if node.metadata_props]
    assert set(map(id, kept)) == set(map(id, nodes))
    for node, name in zip(nodes, names, strict=True):
        assert (node.name, node.doc_string, node.metadata_props, node.meta["mark"]) == (
            name,
            f"doc of {name}",
            {"from": name},
            name,
        )
    assert set(map(id, values)) <= set(map(id, annotations.values(graph)))
    for value in values:
        assert annotations.get(value) == {"finn_datatype": f"of {value.name}"}
        assert value.metadata_props == {"is": value.name}
    assert graph.initializers["w"].const_value is weight
    assert [v.name for v in (*graph.inputs, *graph.outputs)] == ["x", "c", "y", "z"]
    assert (graph.doc_string, rich.producer_name, rich.metadata_props) == ("about", "p", {"k": "v"})
    assert rich.opset_imports == {"": 21, "q": 3}
    custom = next(node for node in graph if node.domain == "q")
    assert (custom.op_type, custom.attributes.get_int("bits")) == ("Quant", 4)
    onnx.checker.check_model(ir.to_proto(rich), full_check=True)


def test_functions_are_converted_and_results_stay(rich):
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32), "c": np.array(True)}
    expected = session(ir.to_proto(rich)).run(None, inputs)
    convert_opset(rich, 21)
    (function,) = rich.functions.values()
    assert function.opset_imports[""] == 21
    assert {node.op_type for node in function} == {"Constant", "Unsqueeze", "Squeeze", "Add"}
    assert_same(expected, session(ir.to_proto(rich)).run(None, inputs))


def test_new_names_clash_with_nothing():
    model = ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["" : 11]> g {X23} '
        "{ y_Constant = Neg (x) u = Unsqueeze <axes = [0]> (y_Constant) y = Squeeze <axes = [0]> (u) }"
    )
    convert_opset(model, 13)
    names = [value.name for value in annotations.values(model.graph)]
    assert len(set(names)) == len(names)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


FUNCTION = """<ir_version: 8, opset_import: ["" : {source}, "f" : 1]>
g (float[2,3] x) => (float[n,m] y) {{ y = f.F <p = {value}> (x) }}
<opset_import: ["" : {source}], domain: "f"> F <p> (a) => (b) {{ b = {call} (a) }}"""


def test_attributes_of_functions_are_kept_where_the_operator_did_not_change():
    model = ir.from_onnx_text(FUNCTION.format(source=9, value=0.5, call="LeakyRelu <alpha: float = @p>"))
    before = session(ir.to_proto(model)).run(None, {"x": -np.ones((2, 3), np.float32)})
    convert_opset(model, 21)
    (function,) = model.functions.values()
    assert function[0].attributes["alpha"].is_ref()
    assert_same(before, session(ir.to_proto(model)).run(None, {"x": -np.ones((2, 3), np.float32)}))


def test_attributes_of_functions_that_would_have_to_become_inputs_are_refused():
    model = ir.from_onnx_text(FUNCTION.format(source=11, value="[0]", call="Unsqueeze <axes: ints = @p>"))
    with pytest.raises(ModelError, match="it takes an attribute from its function"):
        convert_opset(model, 13)


def test_a_function_of_the_default_domain_is_no_operator():
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 9]>
    g (float[2] x) => (float[2] y) { y = MyOwn (x) }
    <opset_import: ["" : 9], domain: ""> MyOwn (a) => (b) { b = Relu (a) }""")
    convert_opset(model, 21)
    assert model.graph.node(0).op_type == "MyOwn"
    assert all(function.opset_imports == {"": 21} for function in model.functions.values())


def test_overridable_axes_are_no_constants():
    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 13]>'
        " g (float[1,3] x, int64[1] a) => (float[n] y) <int64[1] a = {0}> { y = Squeeze (x, a) }"
    )
    with pytest.raises(ModelError, match="'axes' is not constant"):
        convert_opset(model, 12)


def test_big_weights_are_never_read():
    def fail() -> ir.TensorProtocol:
        raise AssertionError("read")

    model = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 9]>'
        " g (float[1,64] x, float[64,64] w) => (float[1,64] y) { y = MatMul (x, w) }"
    )
    value = model.graph.inputs.pop()
    value.const_value = ir.LazyTensor(fail, ir.DataType.FLOAT, ir.Shape([64, 64]), name="w")
    model.graph.register_initializer(value)
    convert_opset(model, 25)
    assert model.opset_imports[""] == 25


def test_the_ir_version_suits_the_opset():
    model = ir.from_onnx_text(f'<ir_version: 3, opset_import: ["" : 8]> g {X23} {{ y = Relu (x) }}')
    convert_opset(model, 21)
    assert model.ir_version == 10
    convert_opset(model, 20)
    assert model.ir_version == 9
    convert_opset(model, 7)
    assert model.ir_version == 4


def is_small(path: Path) -> bool:
    return path.stat().st_size < 1e6


@pytest.mark.parametrize("path", files("float", "qcdq", "ort-quantized", keep=is_small), indirect=True)
def test_networks_give_the_same_results(path: Path):
    model = load(path)
    proto = ir.to_proto(model)
    try:
        inputs = {name: np.asarray(np.abs(array)) for name, array in feeds(proto).items()}
        expected = session(proto).run(None, inputs)
    except Exception:
        if path.stem.startswith("small_"):
            raise
        pytest.skip("a model of others that does not run on made-up inputs")
    convert_opset(model, 25)
    assert_same(expected, session(ir.to_proto(model)).run(None, inputs), exact=True)


@pytest.mark.parametrize("path", files("zoo", "brevitas", "edge"), indirect=True)
def test_quantized_models_keep_names_annotations_and_custom_nodes(path: Path):
    model = load(path)
    before = {value.name: annotations.get(value) for value in annotations.values(model.graph)}
    custom = [node for node in model.graph if node.domain]
    convert_opset(model, 21)
    after = {value.name: annotations.get(value) for value in annotations.values(model.graph)}
    assert before.items() <= after.items()
    assert [node for node in model.graph if node.domain] == custom
    onnx.checker.check_model(ir.to_proto(model))
