from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.fuse.tools import applied, reasons
from tests.passes.tools import model_of, operators

CONSTANTS = """float half = {0.5}, float one = {1}, float root = {1.4142135}, float three = {3},
    float cubic = {0.044715}, float factor = {0.7978846}, float[3] b = {0.5, -1, 2}, float c = {1.702}"""
ERF = "s = Div (x, root) e = Erf (s) g = Add (e, one) m = Mul (x, g) y = Mul (m, half)"
TANH = """p = Pow (x, three) q = Mul (cubic, p) r = Add (x, q) t = Mul (r, factor) u = Tanh (t) g = Add (one, u)
    m = Mul (half, x) y = Mul (m, g)"""


def graph(body: str, *, x: str = "float[2,3]", constants: str = CONSTANTS, outputs: str = "") -> str:
    return f"g ({x} x) => ({x} y{outputs}) <{constants}> {{ {body} }}"


def of_sum(body: str) -> str:
    return body.replace("(x,", "(v,").replace("half, x)", "half, v)")


@pytest.mark.parametrize(
    ("pass_", "body", "opset", "left"),
    [
        ("fuse-microsoft-gelu", ERF, 17, ["Gelu"]),
        ("fuse-microsoft-gelu", TANH, 17, ["FastGelu"]),
        ("fuse-fast-gelu", 'y = Gelu <approximate = "tanh"> (x)', 20, ["FastGelu"]),
        ("fuse-fast-gelu", 's = Add (b, x) y = Gelu <approximate = "tanh"> (s)', 20, ["FastGelu"]),
        ("fuse-bias-gelu", "s = Add (b, x) y = Gelu (s)", 20, ["BiasGelu"]),
        ("fuse-quick-gelu", "m = Mul (x, c) s = Sigmoid (m) y = Mul (s, x)", 17, ["QuickGelu"]),
        ("fuse-quick-gelu", "s = Sigmoid (x) y = Mul (x, s)", 17, ["QuickGelu"]),
        ("fuse-quick-gelu", "y = Swish <alpha = 0.5> (x)", 24, ["QuickGelu"]),
        ("fuse-microsoft-gelu, fuse-bias-gelu", f"v = Add (x, b) {of_sum(ERF)}", 17, ["BiasGelu"]),
        ("fuse-microsoft-gelu, fuse-fast-gelu", f"v = Add (x, b) {of_sum(TANH)}", 17, ["FastGelu"]),
    ],
)
def test_fuses(pass_: str, body: str, opset: int, left: list[str]):
    model = applied(pass_, graph(body), opset=opset)
    assert [node.op_type for node in model.graph] == left
    assert all(node.domain == "com.microsoft" for node in model.graph)
    assert model.opset_imports["com.microsoft"] == 1


def test_factor_of_the_sigmoid_is_kept():
    (node,) = applied("fuse-quick-gelu", graph("m = Mul (x, c) s = Sigmoid (m) y = Mul (s, x)")).graph
    assert node.attributes.get_float("alpha") == pytest.approx(1.702)


@pytest.mark.parametrize(
    ("pass_", "text", "opset", "reason"),
    [
        ("fuse-microsoft-gelu", graph(ERF), 20, "ONNX has Gelu"),
        ("fuse-microsoft-gelu", graph(ERF, constants=CONSTANTS.replace("1.4142135", "1.5")), 17, "not 1.41421"),
        ("fuse-microsoft-gelu", graph(ERF, outputs=", float[2,3] g"), 17, "graph output"),
        ("fuse-fast-gelu", graph("y = Gelu (x)"), 20, "exact Gelu"),
        ("fuse-bias-gelu", graph('s = Add (x, b) y = Gelu <approximate = "tanh"> (s)'), 20, "approximate"),
        ("fuse-bias-gelu", graph("s = Add (x, c) y = Gelu (s)"), 20, "not a bias"),
        ("fuse-bias-gelu", graph("s = Add (x, x) y = Gelu (s)"), 20, "not a bias"),
        (
            "fuse-bias-gelu",
            graph("s = Add (x, b) y = Gelu (s)", x="double[2,3]", constants="double[3] b = {0.5, -1, 2}"),
            20,
            "single precision",
        ),
        ("fuse-quick-gelu", graph("m = Mul (x, b) s = Sigmoid (m) y = Mul (s, x)"), 17, "not a constant number"),
    ],
)
def test_refuses(pass_: str, text: str, opset: int, reason: str):
    assert reason in reasons(pass_, text, opset=opset)


def test_standard_models_stay_standard():
    model = onnx_passes.apply(
        model_of(graph("s = Add (x, b) t = Identity (s) y = Gelu (t)"), opset=20), "simplify"
    ).model
    assert operators(model.graph) == ["Add", "Gelu"]


def called(function: onnx.FunctionProto) -> ir.Model:
    """Make a model that calls a function with one input, and has nothing else."""
    (x,), (y,) = function.input, function.output
    shape = ("N", 3)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(function.name, [x], [y], domain="local")],
        "g",
        [onnx.helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, shape)],
    )
    function.domain = "local"
    imports = [*function.opset_import, onnx.helper.make_opsetid("local", 1)]
    return ir.from_proto(onnx.helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=9))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(
    ("opset", "pipeline"), [(20, "inline-functions, simplify"), (17, "inline-functions, simplify, fuse-onnxruntime")]
)
def test_gelu_as_onnx_defines_it(approximate: str, opset: int, pipeline: str):
    node = onnx.helper.make_node("Gelu", ["X"], ["Y"], approximate=approximate)
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ["N", 3])
    body = onnx.defs.get_schema("Gelu", 20).get_context_dependent_function_with_opset_version(
        20, node.SerializeToString(), [kind.SerializeToString()]
    )
    function = onnx.FunctionProto.FromString(body)
    function.opset_import[0].version = opset
    left = onnx_passes.apply(called(function), pipeline).model.graph
    assert [node.op_type for node in left] == ["FastGelu" if opset < 20 and approximate == "tanh" else "Gelu"]


def test_quick_gelu_as_a_function():
    text = '<domain: "local", opset_import: ["" : 17]> Quick (X) => (Y) '
    body = "{ a = Constant <value = float {1.702}> () b = Mul (a, X) s = Sigmoid (b) Y = Mul (X, s) }"
    left = onnx_passes.apply(called(onnx.parser.parse_function(text + body)), "inline-functions, fuse-quick-gelu").model
    (node,) = [node for node in left.graph if node.op_type != "Constant"]
    assert (node.op_type, node.attributes.get_float("alpha")) == ("QuickGelu", pytest.approx(1.702))
