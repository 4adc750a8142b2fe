"""Laws: text becomes rules that match, refuse and build what the text says; a text that means nothing is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.core.base import Context
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.records import StepRecord
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.match import Match, Partial
from onnx_passes.rewrite.refusal import Refusal, no
from tests.passes.tools import model_of, run


def is_single(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.FLOAT


def twice(value: ir.Value) -> np.ndarray:
    assert value.const_value is not None
    return value.const_value.numpy() * 2


def negation(op: Any, value: ir.Value) -> ir.Value:
    return op.Neg(value)


def has_many_nodes(match: Match) -> bool | Refusal:
    return len(match.nodes) > 1 or no("only one node", at=match.root)


law = Vocabulary(is_single, twice, negation, has_many_nodes).law


def nodes(one: Law, text: str, *, opset: int = 20) -> list[str]:
    """Apply a law, hold the results against those before, and list the nodes that are left."""
    model = model_of(text, opset=opset)
    feeds = {
        str(value.name): np.linspace(-3, 3, 4).astype(value.dtype.numpy())
        for value in model.graph.inputs
        if value.dtype
    }
    expected = run(model, feeds)
    rewrite(model, [one.compiled], Context())
    for result, wanted in zip(run(model, feeds), expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    return [node.op_type for node in model.graph]


def reasons(one: Law, text: str, *, opset: int = 20) -> list[str]:
    model, found = model_of(text, opset=opset), list[str]()
    rule = one.compiled
    for node in model.graph:
        if node.op_type == rule.roots[0].op_type:
            rule.find(model, model.graph, node, refused=found.append)
    return found


def test_operators_match_written_as_calls_or_infix():
    text = "g (float[4] x, float[4] y) => (float[4] z) {a = Neg (y) z = Add (x, a)}"
    assert nodes(law("Add(x, Neg(y)) → Sub(x, y)"), text) == ["Sub"]
    assert nodes(law("x + -y → x - y"), text) == ["Sub"]


def test_operands_of_commutative_operators_match_in_any_order_unless_told():
    text = "g (float[4] x, float[4] y) => (float[4] z) {a = Neg (y) z = Add (a, x)}"
    assert nodes(law("x + -y → x - y"), text) == ["Sub"]
    assert nodes(law("x + -y → x - y", commute=False), text) == ["Neg", "Add"]


def test_either_of_two_matches_and_what_is_found_has_a_name():
    kept = law("Abs(y := (Relu(x) | Abs(x) | Exp(x))) → y", When("is_single(x)", "no"))
    for inner in ("Relu", "Abs", "Exp"):
        assert nodes(kept, f"g (float[4] x) => (float[4] z) {{a = {inner} (x) z = Abs (a)}}") == [inner]
    assert nodes(kept, "g (float[4] x) => (float[4] z) {a = Neg (x) z = Abs (a)}") == ["Neg", "Abs"]


def test_more_inputs_are_matched_only_if_the_text_allows_them():
    text = "g (float[4] x, float[4] y) => (float[4] z) {z = Max (x, y, x)}"
    assert nodes(law("Max(x, y) → Max(y, x)", commute=False), text) == ["Max"]
    assert reasons(law("Max(x, y) → x", When("is_single(y) and not is_single(x)", "a")), text) == []
    assert set(reasons(law("Max(x, y, ...) → x", When("not is_single(x)", "b")), text)) == {"b"}


def test_attribute_is_read_by_name_or_default():
    line = law("HardSigmoid(x, alpha=a, beta=b) → Clip(x * a + b, 0.0, 1.0)")
    lowered = ["Mul", "Add", "Clip"]
    assert nodes(line, "g (float[4] x) => (float[4] z) {z = HardSigmoid (x)}") == lowered
    assert nodes(line, "g (float[4] x) => (float[4] z) {z = HardSigmoid <alpha = 0.3, beta = 0.1> (x)}") == lowered


def test_attribute_with_a_value_matches_that_value_or_the_default():
    exact = law('Gelu(x, approximate="none") → x * 0.5 * (Erf(x * 0.70710678) + 1.0)')
    lowered = ["Mul", "Mul", "Erf", "Add", "Mul"]
    tanh = 'g (float[4] x) => (float[4] z) {z = Gelu <approximate = "tanh"> (x)}'
    assert nodes(exact, "g (float[4] x) => (float[4] z) {z = Gelu (x)}") == lowered
    assert nodes(exact, tanh) == ["Gelu"]
    assert reasons(exact, tanh) == ["attribute 'approximate' is 'tanh', not 'none'"]
    rough = law('Gelu(x, approximate="tanh") → x * 0.5 * (Tanh((x + x * x * x * 0.044715) * 0.79788456) + 1.0)')
    assert "Tanh" in nodes(rough, tanh)
    assert nodes(rough, "g (float[4] x) => (float[4] z) {z = Gelu (x)}") == ["Gelu"]


def test_attribute_that_a_function_gets_from_its_caller_is_refused():
    line = law("HardSigmoid(x, alpha=a) → x * a")
    node = ir.Node("", "HardSigmoid", [ir.Value(name="x")], [ir.RefAttr("alpha", "alpha", ir.AttributeType.FLOAT)])
    graph = ir.Graph(node.inputs, node.outputs, nodes=[node], opset_imports={"": 20})
    found: list[str] = []
    line.compiled.find(ir.Model(graph, ir_version=9), graph, node, refused=found.append)
    assert found == ["attribute 'alpha' is a parameter of a function"]


def test_result_is_named_once_and_used_twice():
    square = law("Pow(x, c) → (y := Abs(x)) * y", When("is_single(c)", "no"))
    text = "g (float[4] x) => (float[4] z) <float c = {2}> {z = Pow (x, c)}"
    assert nodes(square, text) == ["Abs", "Mul"]


def test_functions_compute_constants_and_build_nodes():
    text = "g (float[4] x) => (float[4] z) <float c = {2}> {a = Add (x, c) z = Add (a, c)}"
    assert nodes(law("x + c + c → x + twice(c)"), text) == ["Add"]
    negated = law("x - y → x + negation(y)")
    assert nodes(negated, "g (float[4] x, float[4] y) => (float[4] z) {z = Sub (x, y)}") == ["Neg", "Add"]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (When("is_single(x)", "not single"), "not single"),
        (When("is_single(x)"), "not is_single(x)"),
        (When("opset >= 21", "old"), "old"),
        (When("opset < 21 and is_single(x)", "both"), "both"),
        (When("is_single(x) or opset == 19", "neither"), "neither"),
        (When("not not is_single(x)", "twice no"), "twice no"),
        (When("has_many_nodes()", "overruled"), "only one node"),
    ],
    ids=lambda value: value.text if isinstance(value, When) else "",
)
def test_condition_that_does_not_hold_gives_its_reason(condition: When, reason: str):
    text = "g (double[4] x) => (double[4] z) {z = Neg (x)}"
    assert reasons(law("Neg(x) → x", condition), text) == [reason]


@pytest.mark.parametrize(
    ("condition", "constants", "since"),
    [
        ("is_constant(c)", {"c"}, 0),
        ("is_constant(c) and holds_only(x, 0.0) and not is_constant(x)", {"c", "x"}, 0),
        ("is_constant(c) or is_single(x)", set(), 0),
        ("not is_constant(c)", set(), 0),
        ("opset >= 18 and is_single(x)", set(), 18),
        ("opset < 18", set(), 0),
    ],
)
def test_what_a_condition_demands_is_known_to_the_rule(condition: str, constants: set[str], since: int):
    rule = law("x + c → x", When(condition)).compiled
    assert (rule.constants, rule.since) == (constants, since)


@pytest.mark.parametrize("commute", [True, False])
def test_nodes_that_cannot_fulfil_a_demand_are_not_tried(commute: bool):
    one = law("x + c → x", When("is_constant(c)"), When("holds_only(c, 0.0)"), commute=commute)
    model = model_of("""g (float[4] a, float[4] b) => (float[4] y) <float zero = {0.0}> {
        s = Add (a, b) t = Add (s, zero) u = Add (zero, t) y = Neg (u)
    }""")
    context = Context(record := StepRecord(1, "step", "step", "requested"))
    assert rewrite(model, [one.compiled], context, thorough=False) == (2 if commute else 1)
    assert [node.op_type for node in model.graph] == ["Add", "Neg"] if commute else ["Add", "Add", "Neg"]
    assert record.rules[0].refused == {}


def test_rule_that_needs_a_later_opset_is_not_tried_but_gives_its_reason_when_asked():
    one = law("Neg(x) → Neg(x)", When("opset >= 18", "too early"))
    model = model_of("g (float[4] x) => (float[4] y) { y = Neg (x) }", opset=17)
    context = Context(record := StepRecord(1, "step", "step", "requested"))
    assert rewrite(model, [one.compiled], context, thorough=False) == 0
    assert record.rules[0].tried == 0
    assert rewrite(model, [one.compiled], context) == 0
    assert record.rules[1].refused == {"too early": 1}


def test_refusal_says_where():
    model, partial = model_of("g (double[4] x) => (double[4] z) {z = Neg (x)}"), Partial()
    rule = law("Neg(x) → x", When("is_single(x)", "no")).compiled
    assert rule.find(model, model.graph, model.graph[0], refused=lambda reason: None, partial=partial) is None
    assert partial.at is model.graph.inputs[0]


@pytest.mark.parametrize(
    ("text", "when", "what", "hint"),
    [
        ("Neg(Neg(x)", (), "there is no arrow", "before → after"),
        ("Neg(Neg(x) → x", (), "'Neg(Neg(x)' cannot be read", "Add(x, y)"),
        ("Neg(Neg(x)) → y", (), "nothing binds 'y'", "result, x"),
        ("Neg(x) → x", ("is_single(y)",), "nothing binds 'y'", "result, x"),
        ("Negg(x) → x", (), "no operator 'Negg'", "Neg"),
        ("Neg(x) → Negg(x)", (), "no operator 'Negg'", "Neg"),
        ("Neg(x) → twise(x)", (), "no function is called 'twise'", "twice"),
        ("Neg(x) → x", ("is_singel(x)",), "no function is called 'is_singel'", "is_single"),
        ("x → Neg(x)", (), "its left side is no operator", "Add(x, y)"),
        ("Neg(twice(x)) → x", (), "its left side calls functions", "condition"),
        ("Neg(x) → x", ("negation(x)",), "'negation' wants 'op', which there is on the right side only", "there"),
        ("Neg(x) → has_many_nodes()", (), "wants 'match', which there is in conditions only", "there"),
        ("Neg(x) → x", ("is_single(Abs(x))",), "a condition builds Abs", "functions"),
        ("Neg(x) → Neg(x) | Abs(x)", (), "leaves open what to build", "a law for each"),
        ("Neg(x) → [y for y in x]", (), "means nothing in a law", "Add(x, y)"),
        ("Neg(y := x) → y", (), "'y' names something that is not computed", "result of an operator"),
        ("HardSigmoid(x, alpha=Neg(y)) → x", (), "an attribute on its left side is computed", "name"),
    ],
)
def test_text_that_means_nothing_is_an_error_that_shows_it(text: str, when: tuple[str, ...], what: str, hint: str):
    wrong = law(text, *map(When, when), name="Wrong")
    with pytest.raises(RegistrationError) as caught:
        _ = wrong.compiled
    error = caught.value
    assert error.what.startswith(f"law 'Wrong: {text}")
    assert what in error.what
    assert hint in (error.hint or "")
    assert (error.where or "").startswith(__file__)


def test_law_prints_as_it_is_written():
    assert str(law("x + -y → x - y")) == "x + -y → x - y"
    conditions = When("is_single(x)", "a"), When("opset >= 20", "b")
    assert str(law("Neg(x) → x", *conditions)) == "Neg(x) → x   when is_single(x), opset >= 20"


def test_rule_is_named_after_the_outermost_operator_and_shows_its_line():
    rule = law("x - y → x + -y").compiled
    assert rule.name == "Sub"
    assert rule.source.startswith(f"{__file__}:")
    assert law("x - y → x + -y", name="Other").compiled.name == "Other"


def test_pass_without_laws_is_not_registered():
    with pytest.raises(RegistrationError, match="laws"):

        @passes.register()
        class LawlessPass(LawPass):
            """Do nothing."""


def of_node(op: Any, node: ir.Node, inner: ir.Node) -> ir.Value | Refusal:
    return op.like(node, inner.inputs) if node.op_type == inner.op_type else no("other operators", at=node)


def _is_relu(node: ir.Node) -> bool:
    return node.op_type == "Relu"


known = Vocabulary(of_node, _is_relu, Steps=("Relu", "Abs")).law


def test_functions_are_given_the_nodes_of_values():
    one = known("Relu(inner := Steps(x)) → of_node(result, inner)", When("is_relu(result)"))
    assert nodes(one, "g (float[4] x) => (float[4] z) {a = Relu (x) z = Relu (a)}") == ["Relu"]
    assert nodes(one, "g (float[4] x) => (float[4] z) {a = Abs (x) z = Relu (a)}") == ["Abs", "Relu"]
    assert nodes(one, "g (float[4] x) => (float[4] z) {a = Neg (x) z = Relu (a)}") == ["Neg", "Relu"]


def test_name_of_a_result_means_it_again():
    one = law("(d := Neg(x)) * Abs(d) → Neg(x * Abs(x))")
    assert nodes(one, "g (float[4] x) => (float[4] z) {d = Neg (x) a = Abs (d) z = Mul (d, a)}") == [
        "Abs",
        "Mul",
        "Neg",
    ]
    other = law("(d := Neg(x)) + Relu(d) → Relu(x)", forks="duplicate")
    text = "g (float[4] x, float[4] y) => (float[4] z) {d = Neg (x) e = Neg (y) a = Relu (e) z = Add (d, a)}"
    assert nodes(other, text) == ["Neg", "Neg", "Relu", "Add"]


def test_any_input_may_be_left_out():
    one = law("Clip(x, _, high) → Min(x, high)")
    text = "g (float[4] x) => (float[4] z) <float h = {1}> {z = Clip (x, , h)}"
    assert nodes(one, text) == ["Min"]


def test_several_results_have_names():
    one = law("y, mask = Dropout(x) → negation(x)")
    with pytest.raises(Exception, match="1 values for the 2"):
        nodes(one, "g (float[4] x) => (float[4] z, bool[4] m) {z, m = Dropout (x)}")
    assert "mask" in one.compiled.pattern.outputs[1].name


def test_text_of_a_law_names_operators_that_may_stand_in_the_same_place():
    one = known("Relu(inner := Steps(x)) → of_node(result, inner)", When("is_relu(result)"))
    assert str(one).endswith("of_node(result, inner)   with Steps is Relu | Abs   when is_relu(result)")
