"""The engine carries facts in the order of nodes, through branches, and takes in what an edit made."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.analysis.dataflow import Forward
from tests.passes.tools import model_of, value


class Depth(Forward["int | None"]):
    """How many nodes there are on the longest way to a value; nobody knows of those of Loop."""

    def source(self, value: ir.Value) -> int | None:
        return 0

    def join(self, a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else max(a, b)

    def transfer(self, node: ir.Node) -> list[int | None]:
        if node.op_type == "If":
            return self.of_branches(node)
        if node.op_type == "Split":
            return []
        depths = [self.of(given) for given in node.inputs if given is not None]
        known = [depth for depth in depths if depth is not None]
        return [1 + max(known, default=0) if len(known) == len(depths) else None]


MODEL = """g (bool k, float[4] x) => (float[4] y) {
  a = Neg (x)
  b = If (k) <then_branch = t () => (r) { u = Abs (a) r = Relu (u) }, else_branch = e () => (s) { s = Neg (a) }>
  c, d = Split <num_outputs = 2> (b)
  y = Concat <axis = 0> (c, b)
}"""


def test_facts_go_through_both_branches():
    model, depth = model_of(MODEL), Depth()
    depth.run(model.graph)
    assert [depth.of(value(model, name)) for name in "xaursb"] == [0, 1, 2, 3, 2, 3]


def test_what_a_node_says_nothing_of_is_a_source():
    model, depth = model_of(MODEL), Depth()
    depth.run(model.graph)
    assert [depth.of(value(model, name)) for name in "cdy"] == [0, 0, 4]


def test_a_node_of_an_edit_is_taken_in_without_all_others():
    model, depth = model_of(MODEL), Depth()
    depth.run(model.graph)
    last = model.graph.node(-1)
    made = ir.node("Abs", [last.outputs[0]])
    model.graph.insert_after(last, made)
    depth.visit(made)
    assert depth.of(made.outputs[0]) == 5
