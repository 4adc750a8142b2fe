"""Edits keep the interface, the annotations and the order of a graph."""

from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_passes.graph import annotations
from onnx_passes.graph.edits import (
    carry_annotations,
    copy_type,
    copy_type_and_shape,
    detach,
    is_dead,
    may_rename,
    remove_if_dead,
    replace_value,
    subgraphs_of,
)
from onnx_passes.graph.names import Names


def parse(inputs: str, outputs: str, body: str, initializers: str = "") -> ir.Model:
    head = f"g ({inputs}) => ({outputs})" + (f" <{initializers}>" if initializers else "")
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 21]> {head} {{ {body} }}')


def value(model: ir.Model, name: str) -> ir.Value:
    return next(v for v in annotations.values(model.graph) if v.name == name)


def ops(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def interface(model: ir.Model) -> tuple[list[str], list[tuple]]:
    outputs = [(v.name, v.dtype, v.shape.numpy()) for v in model.graph.outputs]
    return [v.name for v in model.graph.inputs], outputs


def results(model: ir.Model) -> list[np.ndarray]:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    feeds = {"c": np.array(True)} | dict.fromkeys("xow", np.array([-1.5, 2.5], np.float32))
    used = {name: array for name, array in feeds.items() if name in [i.name for i in proto.graph.input]}
    return ReferenceEvaluator(proto).run(None, used)


class Case(NamedTuple):
    """A graph in which ``o`` is replaced by another value that holds the same."""

    outputs: str
    body: str
    by: str = "n"
    identity: bool = False
    inputs: str = "float[2] x"
    initializers: str = ""


CONSTANT = "Constant <value = float[2] {1.0, 2.0}> ()"
BRANCHES = (
    "If (c) < then_branch = t () => (float[2] a) { a = Neg(o) }, else_branch = e () => (float[2] b) { b = Abs(o) } >"
)


def branch(body: str, before: str = "") -> str:
    """Return an If with a branch that has ``o`` as its output."""
    other = "e () => (float[2] b) { b = Abs(x) }"
    return f"{before} y = If (c) < then_branch = t () => (float[2] o) {{ {body} }}, else_branch = {other} >"


REPLACEMENTS = {
    "interior by interior": Case("float[2] y", "n = Relu(x)  o = Relu(x)  y = Neg(o)"),
    "interior by input": Case("float[2] y", "o = Identity(x)  y = Neg(o)", by="x"),
    "interior by initializer": Case(
        "float[2] y", f"o = {CONSTANT}  y = Add(x, o)", initializers="float[2] n = {1.0, 2.0}"
    ),
    "interior by output": Case("float[2] n, float[2] y", "n = Relu(x)  o = Relu(x)  y = Neg(o)"),
    "input by interior": Case("float[2] y", "n = Identity(x)  y = Neg(o)", inputs="float[2] x, float[2] o"),
    "output by interior": Case("float[2] o, float[2] y", "n = Relu(x)  o = Relu(x)  y = Neg(n)"),
    "output with users by interior": Case("float[2] o, float[2] y", "n = Relu(x)  o = Relu(x)  y = Add(o, n)"),
    "output by later interior": Case("float[2] o", "o = Relu(x)  n = Relu(x)"),
    "output by input": Case("float[2] o", "o = Identity(x)", by="x", identity=True),
    "output with users by input": Case("float[2] o, float[2] y", "o = Identity(x)  y = Neg(o)", by="x", identity=True),
    "output by initializer": Case(
        "float[2] o, float[2] y",
        f"o = {CONSTANT}  y = Add(x, o)",
        identity=True,
        initializers="float[2] n = {1.0, 2.0}",
    ),
    "output by overridable initializer": Case(
        "float[2] o, float[2] y",
        "o = Identity(w)  y = Add(x, o)",
        by="w",
        identity=True,
        inputs="float[2] x, float[2] w",
        initializers="float[2] w = {1.0, 2.0}",
    ),
    "output by output": Case("float[2] n, float[2] o", "n = Relu(x)  o = Relu(x)", identity=True),
    "output by later output": Case("float[2] o, float[2] n", "o = Relu(x)  n = Relu(x)", identity=True),
    "output with users by output": Case(
        "float[2] n, float[2] o, float[2] y", "n = Relu(x)  o = Relu(x)  y = Add(o, n)", identity=True
    ),
    "initializer that is an output by interior": Case(
        "float[2] o, float[2] y", f"n = {CONSTANT}  y = Add(x, o)", initializers="float[2] o = {1.0, 2.0}"
    ),
    "captured by subgraphs": Case(
        "float[2] y", f"n = Relu(x)  o = Relu(x)  y = {BRANCHES}", inputs="float[2] x, bool c"
    ),
    "output that is captured by subgraphs": Case(
        "float[2] o, float[2] n, float[2] y",
        f"n = Relu(x)  o = Relu(x)  y = {BRANCHES}",
        identity=True,
        inputs="float[2] x, bool c",
    ),
    "output of a subgraph by an outer value": Case(
        "float[2] y", branch("o = Relu(x)", "n = Relu(x)"), identity=True, inputs="float[2] x, bool c"
    ),
    "output of a subgraph by a graph input": Case(
        "float[2] y", branch("o = Identity(x)"), by="x", identity=True, inputs="float[2] x, bool c"
    ),
    "output of a subgraph by a value of it": Case(
        "float[2] y", branch("n = Relu(x)  o = Relu(x)"), inputs="float[2] x, bool c"
    ),
}


@pytest.mark.parametrize("case", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_a_value_is_replaced_and_the_interface_stays(case):
    model = parse(case.inputs, case.outputs, case.body, case.initializers)
    before, expected = interface(model), results(model)
    old, new = value(model, "o"), value(model, case.by)
    identity = replace_value(old, new, Names.of(model.graph))
    assert interface(model) == before
    assert not old.uses()
    names = [v.name for v in annotations.values(model.graph)]
    assert len(set(names)) == len(names)
    for found, wanted in zip(results(model), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (identity is not None) == case.identity
    if identity is not None:
        assert (identity.op_type, identity.inputs[0]) == ("Identity", new)
        assert identity.outputs[0].name == "o"


def test_a_graph_input_that_is_an_output_stays_both():
    model = parse("float[2] x", "float[2] x, float[2] y", "h = Identity(x)  y = Neg(x)")
    x, h = value(model, "x"), value(model, "h")
    assert replace_value(x, h, Names.of(model.graph)) is None
    assert model.graph.inputs[0] is model.graph.outputs[0] is x
    assert x.name == "x"
    assert model.graph[1].inputs[0] is h


def test_a_value_that_is_an_output_twice_stays_so():
    model = parse("float[2] x", "float[2] o", "n = Relu(x)  o = Relu(x)")
    model.graph.outputs.append(model.graph.outputs[0])
    replace_value(value(model, "o"), value(model, "n"), Names.of(model.graph))
    assert [v.name for v in model.graph.outputs] == ["o", "o"]
    assert model.graph.outputs[0] is model.graph.outputs[1]
    replace_value(value(model, "o"), value(model, "x"), Names.of(model.graph))
    assert [v.name for v in model.graph.outputs] == ["o", "o"]
    assert {v.producer().op_type for v in model.graph.outputs} == {"Identity"}


def test_names_that_are_taken_are_not_given_again():
    model = parse("float[2] x", "float[2] o, float[2] z", "o_old = Neg(x)  o = Identity(x)  z = Neg(o_old)")
    names = Names.of(model.graph)
    names.node("o/Identity")
    identity = replace_value(value(model, "o"), value(model, "x"), names)
    assert identity.name == "o/Identity_1"
    assert sorted(v.name for v in annotations.values(model.graph)) == ["o", "o_old", "o_old_1", "x", "z"]


@pytest.mark.parametrize("outputs", ["float[2] y", "float[2] o, float[2] y"])
def test_annotations_go_along(outputs):
    model = parse("float[2] x", outputs, "n = Relu(x)  o = Relu(x)  y = Neg(o)")
    old, new = value(model, "o"), value(model, "n")
    annotations.set(old, {"finn_datatype": "INT4", "SCALE_TENSOR": "s"})
    annotations.set(new, {"finn_datatype": "INT8"})
    old.metadata_props.update({"a": "old", "b": "old"})
    new.metadata_props["a"] = "new"
    old.meta["range"] = (0, 1)
    old.doc_string = "what it is"
    replace_value(old, new, Names.of(model.graph))
    assert annotations.get(new) == {"finn_datatype": "INT8", "SCALE_TENSOR": "s"}
    assert new.metadata_props == {"a": "new", "b": "old"}
    assert (new.meta["range"], new.doc_string) == ((0, 1), "what it is")


def test_annotations_of_an_output_stay_at_the_output():
    model = parse("float[2] x", "float[2] o", "o = Identity(x)")
    annotations.set(value(model, "o"), {"finn_datatype": "INT4"})
    identity = replace_value(value(model, "o"), value(model, "x"), Names.of(model.graph))
    assert annotations.get(identity.outputs[0]) == {"finn_datatype": "INT4"}
    assert annotations.get(value(model, "x")) == {}


def test_type_and_shape_of_an_output_stay_where_the_new_value_has_none():
    model = parse("float[2] x", "float[2] o", "n = Relu(x)  o = Relu(x)")
    old, new = value(model, "o"), value(model, "n")
    new.type = new.shape = None
    replace_value(old, new, Names.of(model.graph))
    assert (new.dtype, new.shape) == (ir.DataType.FLOAT, [2])
    assert new.type is not old.type
    assert new.shape is not old.shape


def test_carried_annotations_are_not_shared():
    source, target = ir.Value(name="a"), ir.Value(name="b")
    annotations.set(source, {"finn_datatype": "INT4"})
    carry_annotations(source, target)
    annotations.set(target, {"finn_datatype": "INT8"})
    assert annotations.get(source) == {"finn_datatype": "INT4"}


def test_copied_types_and_shapes_are_not_shared():
    source = ir.Value(name="a", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, "N"]))
    target = ir.Value(name="b")
    copy_type_and_shape(source, target)
    target.shape[0] = 5
    target.dtype = ir.DataType.INT8
    assert (source.dtype, source.shape[0]) == (ir.DataType.FLOAT, 1)


def test_known_types_and_shapes_are_not_overwritten():
    source = ir.Value(name="a", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    target = ir.Value(name="b", type=ir.TensorType(ir.DataType.DOUBLE), shape=ir.Shape(["N"]))
    copy_type_and_shape(source, target)
    assert (target.dtype, target.shape) == (ir.DataType.DOUBLE, ["N"])
    copy_type_and_shape(ir.Value(name="c"), target)
    assert target.dtype == ir.DataType.DOUBLE


def test_a_copied_type_keeps_its_denotation():
    copied = copy_type(ir.TensorType(ir.DataType.FLOAT, denotation="IMAGE"))
    assert (copied.dtype, copied.denotation) == (ir.DataType.FLOAT, "IMAGE")
    sequence = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
    assert copy_type(sequence) == sequence


def test_only_interior_values_may_be_renamed():
    model = parse("float[2] x", "float[2] y", "h = Add(x, w)  y = Neg(h)", "float[2] w = {1.0, 2.0}")
    assert {name: may_rename(value(model, name)) for name in "xwhy"} == {"x": False, "w": False, "h": True, "y": False}


def test_a_node_is_dead_when_nothing_uses_any_output():
    model = parse("float[4] x", "float[2] y", "a, b = Split <axis = 0, num_outputs = 2> (x)  y = Neg(a)  z = Neg(x)")
    split, neg, dead = model.graph
    assert (is_dead(split), is_dead(neg), is_dead(dead)) == (False, False, True)


class TestRemoval:
    """What is dead goes, with what only it used."""

    def test_upstream_goes_along(self):
        model = parse(
            "float[2] x",
            "float[2] y",
            "a = Relu(x)  b = Add(a, w)  c = Mul(b, v)  y = Mul(x, v)",
            "float[2] w = {1.0, 2.0}, float[2] v = {1.0, 2.0}",
        )
        removed = remove_if_dead([model.graph[2]])
        assert [node.op_type for node in removed] == ["Mul", "Add", "Relu"]
        assert ops(model) == ["Mul"]
        assert list(model.graph.initializers) == ["v"]
        assert [v.name for v in model.graph.inputs] == ["x"]
        assert len(value(model, "x").uses()) == 1

    def test_what_is_used_stays(self):
        model = parse("float[2] x", "float[2] y", "a = Relu(x)  b = Neg(a)  y = Neg(a)")
        dead = model.graph[1]
        assert remove_if_dead(model.graph) == [dead]
        assert ops(model) == ["Relu", "Neg"]

    def test_outputs_stay(self):
        model = parse("float[2] x", "float[2] y, float[2] a", "a = Relu(x)  b = Neg(a)  y = Neg(x)")
        assert [node.op_type for node in remove_if_dead(model.graph)] == ["Neg"]
        assert ops(model) == ["Relu", "Neg"]

    def test_initializers_to_keep_stay(self):
        model = parse(
            "float[2] x, float[2] w",
            "float[2] y, float[2] u",
            "a = Sum(w, v, u, t)  y = Neg(x)",
            "float[2] w = {1.0, 2.0}, float[2] v = {1.0, 2.0}, float[2] u = {1.0, 2.0}, float[2] t = {1.0, 2.0}",
        )
        remove_if_dead([model.graph[0]], keep={"v"})
        assert list(model.graph.initializers) == ["w", "v", "u"]

    def test_a_value_used_twice_is_no_trouble(self):
        model = parse("float[2] x", "float[2] y", "a = Relu(x)  b = Mul(a, a)  y = Neg(x)")
        assert len(remove_if_dead([model.graph[1], model.graph[1]])) == 2

    def test_omitted_inputs_are_no_trouble(self):
        model = parse("float[2] x", "float[2] y", "a = Clip(x, , m)  y = Neg(x)", "float m = {1.0}")
        remove_if_dead([model.graph[0]])
        assert (ops(model), list(model.graph.initializers)) == (["Neg"], [])

    def test_a_node_outside_of_a_graph_is_left_alone(self):
        x = ir.Value(name="x")
        assert remove_if_dead([ir.Node("", "Relu", [x])]) == []
        assert x.uses()

    CAPTURING = """
    a = Relu(x)  b = Add(x, w)  k = Neg(x)
    z = If (c) <
      then_branch = t () => (float[2] d) { d = Sub(a, v) },
      else_branch = e () => (float[2] f) {
        f = If (c) <
          then_branch = tt () => (float[2] h) <float[2] inner = {1.0, 2.0}> { g = Add(b, inner)  h = Neg(g) },
          else_branch = ee () => (float[2] i) { i = Neg(k) }
        >
      }
    >
    y = Neg(k)
    """
    INITIALIZERS = "float[2] w = {1.0, 2.0}, float[2] v = {1.0, 2.0}"

    def test_values_that_subgraphs_capture_stay(self):
        model = parse("float[2] x, bool c", "float[2] y, float[2] z", self.CAPTURING, self.INITIALIZERS)
        assert remove_if_dead(list(model.graph)) == []
        assert len(model.graph) == 5
        assert list(model.graph.initializers) == ["w", "v"]

    def test_what_only_a_dead_subgraph_captured_goes(self):
        model = parse("float[2] x, bool c", "float[2] y", self.CAPTURING, self.INITIALIZERS)
        removed = remove_if_dead([node for node in model.graph if node.op_type == "If"])
        assert sorted(node.op_type for node in removed) == ["Add", "If", "Relu"]
        assert ops(model) == ["Neg", "Neg"]
        assert list(model.graph.initializers) == []
        assert [use.node.op_type for use in value(model, "k").uses()] == ["Neg"]
        assert not value(model, "c").uses()
        results(model)

    def test_upstream_of_a_node_in_a_subgraph_goes_too(self):
        model = parse(
            "float[2] x, bool c",
            "float[2] y",
            """a = Relu(x)
            y = If (c) <
              then_branch = t () => (float[2] d) { dead = Add(a, w)  d = Neg(x) },
              else_branch = e () => (float[2] f) { f = Abs(x) }
            >""",
            "float[2] w = {1.0, 2.0}",
        )
        (branch, _) = subgraphs_of(model.graph[1])
        assert len(remove_if_dead([branch[0]])) == 2
        assert (ops(model), list(model.graph.initializers)) == (["If"], [])
        results(model)


def test_subgraphs_are_found_in_all_kinds_of_attributes():
    def graph(name):
        return ir.Graph([], [], nodes=[], name=name)

    one, two, three = graph("one"), graph("two"), graph("three")
    node = ir.Node(
        "my",
        "Holds",
        [],
        [
            ir.AttrInt64("n", 1),
            ir.AttrGraph("g", one),
            ir.AttrGraphs("gs", [two, three]),
            ir.RefAttr("r", "outer", ir.AttributeType.GRAPH),
        ],
    )
    assert subgraphs_of(node) == [one, two, three]


def test_a_detached_node_uses_nothing():
    x = ir.Value(name="x")
    node = ir.Node("", "Clip", [x, None, x])
    detach(node)
    assert not x.uses()
    assert list(node.inputs) == [None, None, None]


def test_constant_node_that_an_annotation_names_is_kept():
    model = ir.from_onnx_text("""
        <ir_version: 10, opset_import: ["": 20]>
        g (float[1] x) => (float[1] y) {
            scale = Constant<value = float {2.0}>()
            dead = Mul(x, scale)
            y = Neg(x)
        }
    """)
    removed = remove_if_dead([model.graph[1]], keep={"scale"})
    assert [node.op_type for node in removed] == ["Mul"]
    assert [node.op_type for node in model.graph] == ["Constant", "Neg"]
