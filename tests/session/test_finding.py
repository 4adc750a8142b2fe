from __future__ import annotations

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import RewriteRulePass, Rule, Transformation, constant, no
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.hashing.fingerprint import full_hash

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2,2] x, float[2,2] w, float[2] z) => (float[2,2] y, float[2,2] last)
<float[2] b = {1.0, 2.0}>
{
  [mm] m = MatMul(x, w)
  [fits] s = Add(m, b)
  [relu] r = Relu(s)
  [mm2] m2 = MatMul(r, w)
  [variable] u = Add(z, m2)
  [relu2] y = Relu(u)
  [other] last = Neg(s)
}
"""


class FuseBias(Transformation, RewriteRulePass):
    def pattern(self, op, x, w, c):
        return op.Add(op.MatMul(x, w), c)

    def check(self, op, x, w, c):
        return constant(c) is not None or no("the bias is not constant", at=c)

    def rewrite(self, op, x, w, c):
        return op.Gemm(x, w, c)


@pytest.fixture
def session() -> onnx_passes.Session:
    return onnx_passes.open(ir.from_onnx_text(MODEL))


def names(matches) -> list[list[str]]:
    return [[node.name for node in match.nodes] for match in matches]


def test_operators_are_found_in_order(session):
    found = session.find("Relu")
    assert names(found) == [["relu"], ["relu2"]]
    assert found[1].root is session.model.graph[5]
    assert found.nodes == [session.model.graph[2], session.model.graph[5]]


def test_a_chain_follows_values_into_any_input(session):
    assert names(session.find("MatMul > Add > Relu")) == [["mm", "fits", "relu"], ["mm2", "variable", "relu2"]]
    assert names(session.find("Add > Neg")) == [["fits", "other"]]


def test_expressions_bind_their_variables(session):
    found = session.find("Relu(MatMul(a, k) + c)")
    assert [match.bindings["c"].name for match in found] == ["b", "z"]
    assert "c = 'b'" in str(found)


def test_pattern_functions_are_found_whatever_else_uses_the_values(session):
    def biased(op, x, w, c):
        return op.Relu(op.Add(op.MatMul(x, w), c))

    found = session.find(biased)
    assert found.what == "biased"
    assert [match.root.name for match in found] == ["relu", "relu2"]


def test_rules_are_found_where_their_check_agrees(session):
    rule = Rule(
        lambda op, x, c: op.Add(x, c),
        lambda op, x, c: op.Identity(x),
        lambda op, x, c: constant(c) is not None,
        name="constants",
    )
    assert names(session.find(rule)) == [["fits"]]


def test_operators_of_functions_and_subgraphs_are_found():
    model = ir.from_onnx_text("""
    <ir_version: 10, opset_import: ["": 20, "local": 1]>
    g (bool c, float[2] x) => (float[2] y) {
      y = If (c) <then_branch = then () => (float[2] a) { [inner] a = Relu(x) },
                  else_branch = other () => (float[2] b) { b = local.f(x) }>
    }
    <domain: "local", opset_import: ["": 20]> f (p) => (q) { [body] q = Relu(p) }
    """)
    assert names(onnx_passes.open(model).find("Relu")) == [["inner"], ["body"]]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("MatMull", "did you mean 'MatMul'"),
        ("MatMul > Rleu", "did you mean 'Relu'"),
        ("Relu(", "cannot be looked for"),
        ("x", "there is no operator named 'x'"),
    ],
)
def test_what_cannot_be_looked_for_is_said(session, what, message):
    with pytest.raises(UsageError, match=message):
        session.find(what)


def test_known_operators_that_are_not_there_are_no_mistake(session):
    found = session.find("Conv")
    assert len(found) == 0
    assert str(found) == "0 matches of Conv"


def test_matches_says_where_a_pass_applies_and_why_not_elsewhere(session):
    before = full_hash(session.model)
    found = session.matches(FuseBias)
    assert full_hash(session.model) == before
    assert found.what == "fuse-bias"
    assert names(found) == [["fits", "mm"]]
    assert found[0].root is session.model.graph[1]
    (missed,) = found.missed
    assert missed.reasons == ("the bias is not constant: 'z'",)
    assert missed.nodes[0] is session.model.graph[4]
    assert found.summary().endswith(", 1 near miss")


def test_matches_of_a_pass_by_hand_are_nodes_of_the_model():
    session = onnx_passes.open(ir.from_onnx_text(MODEL.replace("Neg(s)", "Identity(s)")))
    found = session.matches("eliminate-identity")
    assert names(found) == [["other"]]
    assert found[0].root in list(session.model.graph)
