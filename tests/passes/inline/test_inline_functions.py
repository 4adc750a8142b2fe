from __future__ import annotations

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import PassFailedError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.cleanup.unique_names import UniqueNames
from onnx_passes.passes.inline.inline_functions import InlineFunctions
from tests.passes.tools import apply, assert_equal_results, check, model_of, operators, run, value

X = {"x": np.array([-1.5, 2.0], np.float32)}


def local(graph: str, *functions: str, opset: int = 18, ir_version: int = 10) -> ir.Model:
    heads = [f'<domain: "local", opset_import: ["" : {opset}, "local" : 1]>\n{function}' for function in functions]
    return model_of("\n".join([graph, *heads]), domains='"local" : 1', ir_version=ir_version)


def inline(model: ir.Model) -> None:
    """Inline, compare with ONNX's own inliner and with what ONNX Runtime makes of the functions."""
    expected = run(model, X)
    reference = ir.from_proto(onnx.inliner.inline_local_functions(ir.to_proto(model)))
    assert apply(InlineFunctions(), model)
    assert not model.functions
    check(model)
    assert not UniqueNames()(model.clone()).modified or any(not node.name for node in model.graph)
    assert_equal_results(model, expected, X)
    assert sorted(n.op_type for n in model.graph.all_nodes()) == sorted(n.op_type for n in reference.graph.all_nodes())


def test_puts_the_body_in_place_of_the_call():
    model = local(
        "g (float[2] x) => (float[2] y) { a = Abs (x) [call] b = local.f (a, x) y = Neg (b) }",
        "f (p, q) => (r) { [add] s = Add (p, q) [relu] r = Relu (s) }",
    )
    inline(model)
    assert operators(model.graph) == ["Abs", "Add", "Relu", "Neg"]
    assert [node.name for node in model.graph][1:3] == ["call/add", "call/relu"]
    assert [node.outputs[0].name for node in model.graph] == ["a", "call/s", "b", "y"]


def test_calls_of_one_function_get_names_of_their_own():
    model = local(
        "g (float[2] x) => (float[2] y) { s = Abs (x) a = local.f (s) b = local.f (a) y = local.f (b) }",
        "f (p) => (r) { s = Add (p, p) r = Relu (s) }",
    )
    inline(model)
    names = [node.outputs[0].name for node in model.graph]
    assert len(set(names)) == len(names)
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_functions_that_call_functions():
    model = local(
        "g (float[2] x) => (float[2] y) { y = local.outer (x) }",
        "outer (p) => (r) { a = local.inner (p) b = local.inner (a) r = Add (a, b) }",
        "inner (p) => (r) { q = local.leaf (p) r = Mul (q, p) }",
        "leaf (p) => (r) { r = Exp (p) }",
    )
    inline(model)
    assert operators(model.graph) == ["Exp", "Mul", "Exp", "Mul", "Add"]


def test_attributes_defaults_and_references_through_several_levels():
    model = local(
        "g (float[2] x) => (float[2] y) { a = local.outer <slope = 0.5> (x) b = local.outer (x) y = Add (a, b) }",
        "outer <alpha: float = 0.25, slope: float = 0.125> (p) => (r) { q = local.inner <beta: float = @slope> (p) "
        "r = LeakyRelu <alpha: float = @alpha> (q) }",
        "inner <beta: float = 1.0> (p) => (r) { r = Elu <alpha: float = @beta> (p) }",
    )
    inline(model)
    found = [node.attributes["alpha"].as_float() for node in model.graph if node.op_type != "Add"]
    assert found == [0.5, 0.25, 0.125, 0.25]
    assert not any(a.is_ref() for node in model.graph for a in node.attributes.values())


def test_an_attribute_left_out_without_default_takes_that_of_the_operator():
    model = local(
        "g (float[2] x) => (float[2] y) { y = local.f (x) }",
        "f <alpha> (p) => (r) { r = LeakyRelu <alpha: float = @alpha> (p) }",
    )
    assert apply(InlineFunctions(), model)
    assert not model.graph[0].attributes
    check(model)
    assert_equal_results(model, [np.array([-0.015, 2], np.float32)], X)


def test_optional_inputs_left_out():
    model = local(
        "g (float[2] x) => (float[2] y) <float hi = {1}> { a = local.f (x, , hi) b = local.f (x) y = Add (a, b) }",
        "f (p, lo, hi) => (r) { r = Clip (p, lo, hi) }",
    )
    assert apply(InlineFunctions(), model)
    assert [v.name if v else None for v in model.graph[0].inputs] == ["x", None, "hi"]
    assert all(v is None for v in model.graph[1].inputs[1:])
    assert_equal_results(model, [np.array([-3, 3], np.float32)], X)


def test_results_left_out():
    model = local(
        "g (float[2] x) => (float[2] y) { y = local.f (x) }",
        "f (p) => (r, s) { r = Relu (p) s = Neg (p) }",
    )
    apply(InlineFunctions(), model)
    assert_equal_results(model, [np.array([0, 2], np.float32)], X)
    check(model)


SAME = "f (p) => (p) { q = Relu (p) }"
TWICE = "f (p) => (q, q) { q = Relu (p) }"
TWO = "f (p) => (q, r) { q = Relu (p) r = Neg (q) }"


@pytest.mark.parametrize(
    ("graph", "function", "expected"),
    [
        ("g (float[2] x) => (float[2] y) { y = local.f (x) }", SAME, [[-1.5, 2]]),
        ("g (float[2] x) => (float[2] y) { a = local.f (x) y = Abs (a) }", SAME, [[1.5, 2]]),
        ("g (float[2] x) => (float[2] y, float[2] a) { a = Abs (x) y = local.f (a) }", SAME, [[1.5, 2], [1.5, 2]]),
        ("g (float[2] x) => (float[2] y, float[2] z) { y, z = local.f (x) }", TWICE, [[0, 2], [0, 2]]),
        ("g (float[2] x) => (float[2] y) { a, b = local.f (x) y = Add (a, b) }", TWICE, [[0, 4]]),
        ("g (float[2] x) => (float[2] y, float[2] z) { a, z = local.f (x) y = Abs (a) }", TWO, [[0, 2], [-0.0, -2]]),
    ],
    ids=["input is output", "input passed on", "output again", "one result twice", "one result used twice", "second"],
)
def test_inputs_and_outputs_of_the_model_keep_their_names(graph: str, function: str, expected: list[list[float]]):
    # onnx's own inliner makes invalid models of most of these.
    model = local(graph, function)
    interface = [v.name for v in (*model.graph.inputs, *model.graph.outputs)]
    assert apply(InlineFunctions(), model)
    assert [v.name for v in (*model.graph.inputs, *model.graph.outputs)] == interface
    check(model)
    assert_equal_results(model, [np.array(array, np.float32) for array in expected], X)


def test_calls_in_subgraphs_and_subgraphs_in_functions():
    model = local(
        """g (float[2] x) => (float[2] y) {
          k = Constant <value = bool {1}> ()
          t = Abs (x)
          y = If (k) <then_branch = t () => (float[2] r) { u = local.f (t, k) r = local.f (u, k) },
                      else_branch = e () => (float[2] s) { s = Identity (x) }>
        }""",
        """f (p, k) => (q) {
          t = Neg (p)
          q = If (k) <then_branch = t () => (r) { u = Exp (t) r = Mul (u, p) },
                      else_branch = e () => (s) { s = Identity (t) }>
        }""",
    )
    expected = run(model, X)
    assert apply(InlineFunctions(), model)
    names = [v.name for v in annotations.values(model.graph)]
    assert len(names) == len(set(names))
    onnx.checker.check_model(ir.to_proto(model))
    assert_equal_results(model, expected, X)


def test_annotations_metadata_types_and_shapes_of_the_call_are_kept():
    model = local(
        "g (float[2] x) => (float[2] y) <float[2] a> { [call] a = local.f (x) y = Neg (a) }",
        "f (p) => (r) { [n] s = Abs (p) r = Relu (s) }",
    )
    call = model.graph[0]
    annotations.set(call.outputs[0], {"finn_datatype": "UINT4"})
    call.outputs[0].metadata_props["of"] = "result"
    call.metadata_props.update({"by": "call", "both": "call"})
    body = next(iter(model.functions.values()))
    body[0].metadata_props["both"] = "body"
    annotations.set(body[0].outputs[0], {"finn_datatype": "UINT8", "SCALE_TENSOR": "s"})
    apply(InlineFunctions(), model)
    a = value(model, "a")
    assert annotations.get(a) == {"finn_datatype": "UINT4"}
    assert a.metadata_props == {"of": "result"}
    assert (a.dtype, a.shape) == (ir.DataType.FLOAT, [2])
    assert annotations.get(value(model, "call/s")) == {"finn_datatype": "UINT8", "SCALE_TENSOR": "call/s"}
    assert model.graph[0].metadata_props == {"by": "call", "both": "body"}
    assert model.graph[1].metadata_props == {"by": "call", "both": "call"}


def test_names_of_dimensions_inside_a_function_stay_inside():
    model = local(
        "g (float[N] x) => (float[N] y) { a = local.f (x) y = Neg (a) }", "f (p) => (r) { s = Abs (p) r = Relu (s) }"
    )
    body = next(iter(model.functions.values()))
    body[0].outputs[0].shape = ir.Shape(["N", 3])
    apply(InlineFunctions(), model)
    shape = model.graph[0].outputs[0].shape
    assert shape is not None
    assert list(shape) == [None, 3]


def test_functions_without_a_call_go_too():
    model = local("g (float[2] x) => (float[2] y) { y = Relu (x) }", "f (p) => (r) { r = Abs (p) }")
    assert apply(InlineFunctions(), model)
    assert not model.functions


def test_imports_that_only_functions_had_move_to_the_model():
    model = model_of(
        "g (float[2] x) => (float[2] y) { y = local.f (x) }\n"
        '<domain: "local", opset_import: ["" : 18, "com.microsoft" : 1]> f (p) => (r) { r = com.microsoft.Gelu (p) }',
        domains='"local" : 1',
    )
    expected = run(model, X)
    assert apply(InlineFunctions(), model)
    assert model.opset_imports["com.microsoft"] == 1
    assert_equal_results(model, expected, X)


def test_without_functions_nothing_changes():
    assert not apply(InlineFunctions(), model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            local("g (float[2] x) => (float[2] y) { y = local.f (x) }", "f (p) => (r) { r = Relu (p) }", opset=17),
            "function 'local.f' uses version 17 of the default operator set, the model 18",
        ),
        (
            local("g (float[2] x) => (float[2] y) { y = local.f (x, x) }", "f (p) => (r) { r = Relu (p) }"),
            "has 2 inputs, but function 'local.f' only 1",
        ),
        (
            local("g (float[2] x) => (float[2] y) { y, z = local.f (x) }", "f (p) => (r) { r = Relu (p) }"),
            "has 2 outputs, but function 'local.f' only 1",
        ),
        (
            local(
                "g (float[2] x) => (float[2] y) { y = local.f (x) }",
                "f (p) => (r) { r = local.h (p) }",
                "h (p) => (r) { r = local.f (p) }",
            ),
            "functions call each other in a cycle: 'local.f' → 'local.h' → 'local.f'",
        ),
        (
            local("g (float[2] x) => (float[2] y) { y = local.f () }", "f (p) => (p) { q = Relu (p) }"),
            "output 'y' is an input of local::f",
        ),
    ],
    ids=["opset", "inputs", "outputs", "recursion", "missing output"],
)
def test_refuses_and_leaves_the_model_alone(model: ir.Model, message: str):
    before = full_hash(model)
    with pytest.raises(PassFailedError, match=message):
        InlineFunctions()(model)
    assert full_hash(model) == before


def test_refuses_graphs_as_attributes():
    model = local("g (float[2] x) => (float[2] y) { y = local.f (x) }", "f <body> (p) => (r) { r = Relu (p) }")
    model.graph[0].attributes.add(ir.AttrGraph("body", ir.Graph([], [], nodes=[], name="inner")))
    with pytest.raises(PassFailedError, match="passes a graph"):
        InlineFunctions()(model)
