from __future__ import annotations

import sys

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import examples, to_networkx
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.utils.networkx import onnx_to_nx

networkx = pytest.importorskip("networkx", reason="NetworkX is optional")

TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[2,N] x, bool c) => (float[2,N] y) <float[2,1] w = {1, 2}>
{
    [sum] a = Add(x, w)
    [double] b = Add(a, a)
    [choice] y = If(c) <
        then_branch = t () => (float[2,N] p) { [inner] p = Relu(b) },
        else_branch = e () => (float[2,N] q) { [other] q = LeakyRelu<alpha=0.5>(b) }
    >
}"""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


def test_vertices_have_what_is_known(model):
    graph = to_networkx(model)
    assert isinstance(graph, networkx.MultiDiGraph)
    assert {key: data["kind"] for key, data in graph.nodes(data=True)} == {
        **dict.fromkeys(("sum", "double", "choice", "inner", "other"), "node"),
        "x": "input",
        "c": "input",
        "y": "output",
    }
    assert graph.nodes["other"]["attributes"] == {"alpha": 0.5}
    assert graph.nodes["other"]["graph"] == "choice/else_branch"
    assert graph.nodes["x"]["shape"] == (2, "N")
    assert graph.nodes["sum"]["ir"] is next(iter(model.graph))


def test_edges_are_uses_of_values(model):
    set_datatype(next(iter(model.graph)).outputs[0], "INT4")
    graph = to_networkx(model)
    twice = list(graph.get_edge_data("sum", "double").values())
    assert [(edge["value"], edge["input"], edge["datatype"]) for edge in twice] == [("a", 0, "INT4"), ("a", 1, "INT4")]
    assert networkx.has_path(graph, "double", "y")
    assert set(graph.predecessors("choice")) == {"c", "inner", "other"}
    assert networkx.is_directed_acyclic_graph(graph)


def test_constants_are_vertices_on_request(model):
    assert "w" not in to_networkx(model)
    graph = to_networkx(model, constants=True)
    assert graph.nodes["w"]["kind"] == "initializer"
    assert list(graph.successors("w")) == ["sum"]


def test_names_that_are_taken_get_a_number():
    text = (
        '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { [x] a = Neg(x)\n [x] y = Relu(a) }'
    )
    graph = to_networkx(ir.from_onnx_text(text))
    assert set(graph.nodes) == {"x", "x#2", "x#3", "y"}
    assert list(networkx.topological_sort(graph)) == ["x#3", "x", "x#2", "y"]


def test_agrees_with_the_model_on_what_depends_on_what():
    model = onnx_passes.load(examples.path("digits-cnn"))
    graph = to_networkx(model)
    for node in model.graph:
        read = {value.producer() for value in node.inputs if value is not None} - {None}
        vertex = next(key for key, data in graph.nodes(data=True) if data["ir"] is node)
        found = {graph.nodes[key]["ir"] for key in graph.predecessors(vertex)}
        assert {each for each in found if isinstance(each, ir.Node)} == read


def test_files_and_functions_are_taken():
    assert len(to_networkx(examples.path("digits-mlp")))
    text = """<ir_version: 10, opset_import: ["": 21, "own": 1]> g (float[4] x) => (float[4] y) { y = own.f(x) }
    <domain: "own", opset_import: ["": 21]> f (a) => (b) { b = Neg(a) }"""
    function = next(iter(ir.from_onnx_text(text).functions.values()))
    assert [data["kind"] for _, data in to_networkx(function).nodes(data=True)] == ["node", "input", "output"]


def test_objects_as_vertices(model):
    graph = onnx_to_nx(model)
    assert type(graph) is networkx.DiGraph
    names = {vertex: vertex.name for vertex in graph}
    edges = {(names[a], names[b], data["value"].name) for a, b, data in graph.edges(data=True)}
    assert edges == {
        *(("x", "sum", "x"), ("sum", "double", "a"), ("c", "choice", "c"), ("choice", "y", "y")),
        *(("double", "inner", "b"), ("double", "other", "b")),
    }
    assert {type(vertex) for vertex in graph} == {ir.Node, ir.Value}


def test_without_networkx_it_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(UsageError, match=r"pip install 'onnx-passes\[networkx\]'"):
        to_networkx(model)
