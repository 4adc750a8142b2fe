"""The index of rules: what is compiled, and which nodes are looked at again after a change."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.laws import LawPass, LawRule, Vocabulary
from onnx_passes.rewrite.rule import Rule
from tests.rewrite.support import parse

_law = Vocabulary(Layer=("Conv", "Gemm")).law


class Table(LawPass):
    """Laws of several operators."""

    laws = (
        _law("Neg(Neg(x)) → x"),
        _law("x + 0 → x"),
        _law("(a := Abs(x)) * a → x * x"),
        _law("Relu(Layer(x, ...)) → x"),
        _law("y, mask = Dropout(Exp(x)) → Dropout(x)"),
        _law("com.microsoft.Gelu(Relu(x)) → Relu(x)"),
    )


def _is_compiled(rule: Rule) -> bool:
    return "pattern" in vars(rule)


def _nodes() -> dict[str, ir.Node]:
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Add(a, a) c = Mul(b, b) d = Relu(c) y = Sin(d) }"
    return {node.op_type: node for node in parse(text).graph}


def test_operators_of_laws_are_those_of_their_patterns():
    for law in Table.laws:
        assert law.operator == law.compiled.roots[0].operator, law.text


def test_rules_of_an_operator_are_compiled_when_it_is_met():
    rules = Table().rules()
    index, nodes = RuleIndex(rules), _nodes()
    assert not any(map(_is_compiled, rules))
    assert [entry.rule.name for entry in index.candidates(nodes["Neg"])] == []
    assert [entry.rule.name for entry in index.candidates(nodes["Relu"])] == []
    assert [rule.name for rule in rules if _is_compiled(rule)] == ["Neg", "Relu"]
    assert [entry.rule.name for entry in index.candidates(nodes["Add"])] == ["Add"]
    assert index.candidates(nodes["Sin"]) == []


def test_a_node_is_reached_as_far_as_its_rules_look():
    index, nodes = RuleIndex(Table().rules()), _nodes()
    assert index.reach(nodes["Neg"]) > 100, "it was never looked at"
    index.candidates(nodes["Neg"])
    index.candidates(nodes["Add"])
    assert [index.reach(nodes[name]) for name in ("Neg", "Add", "Sin")] == [2, 1, 0]
    assert [index.covers(nodes[name]) for name in ("Neg", "Add", "Sin")] == [True, True, False]


def test_a_rule_that_is_compiled_keeps_its_owner():
    (first, *_), owner = Table().rules(), Table()
    first.owner = owner
    assert isinstance(first, LawRule)
    assert (first.size, first.depth, first.owner) == (2, 2, owner)
