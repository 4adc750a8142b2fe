"""New names clash with nothing."""

import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.graph.names import Names

TEXT = """
<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
g (float[2] x, bool c, float[2] v) => (float[2] y) <float[2] w = {1.0, 2.0}, float[2] v = {1.0, 2.0}>
{
  [first] h = Add(x, w)
  [second] y = If (c) <
    then_branch = t () => (float[2] a) <float[2] u = {3.0, 4.0}> { [third] r = Relu(h)  a = Add(r, u) },
    else_branch = e () => (float[2] b) { b = my.f(h) }
  >
}
<domain: "my", opset_import: ["" : 21]>
f (p) => (q) { [inside] s = Relu(p)  q = Neg(s) }
"""
VALUES = ["x", "c", "v", "y", "w", "h", "a", "u", "r", "b"]
NODES = ["first", "second", "third"]
wishes = st.sampled_from(["a", "a_1", "a_2", "a_1_1", "b", ""])


def test_names_of_inputs_initializers_results_and_subgraphs_are_taken():
    names = Names.of(ir.from_onnx_text(TEXT).graph)
    assert [names.value(name) for name in VALUES] == [f"{name}_1" for name in VALUES]
    assert [names.node(name) for name in NODES] == [f"{name}_1" for name in NODES]


def test_values_and_nodes_have_separate_names():
    names = Names.of(ir.from_onnx_text(TEXT).graph)
    assert names.value("first") == "first"
    assert names.node("h") == "h"


def test_a_function_has_names_of_its_own():
    model = ir.from_onnx_text(TEXT)
    (function,) = model.functions.values()
    names = Names.of(function)
    assert [names.value(name) for name in ("p", "q", "s", "x")] == ["p_1", "q_1", "s_1", "x"]
    assert names.node("inside") == "inside_1"
    assert Names.of(model.graph).value("s") == "s"


def test_an_omitted_output_takes_no_name():
    node = ir.Node("", "Dropout", [], num_outputs=2)
    node.outputs[0].name, node.outputs[1].name = "y", None
    names = Names.of(ir.Graph([], [node.outputs[0]], nodes=[node], opset_imports={"": 21}))
    assert names.value("y") == "y_1"


def test_a_wish_that_is_free_is_granted_once():
    names = Names(values=["x"], nodes=["n"])
    assert [names.value("y"), names.value("y"), names.value("y")] == ["y", "y_1", "y_2"]
    assert [names.value("x"), names.node("n"), names.node("x")] == ["x_1", "n_1", "x"]


@given(st.lists(wishes, max_size=6), st.lists(st.tuples(st.booleans(), wishes), max_size=30))
def test_no_name_is_given_twice(taken, claims):
    names = Names(taken, taken)
    given_out = [(is_value, names.value(wish) if is_value else names.node(wish)) for is_value, wish in claims]
    assert len(set(given_out)) == len(given_out)
    assert not {name for _, name in given_out} & set(taken)
    for (_, name), (_, wish) in zip(given_out, claims, strict=True):
        assert name == wish or name.startswith(f"{wish}_")
