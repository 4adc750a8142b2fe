from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import (
    Annotation,
    PassResult,
    RewriteRulePass,
    RewriteRuleSetPass,
    Rule,
    Transformation,
    constant,
    no,
)
from onnx_passes.core.compose import Group
from onnx_passes.core.errors import UsageError
from onnx_passes.debug.attempts import Attempt
from onnx_passes.debug.why_not import why_not

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2,2] x, float[2,2] w, float[2] z) => (float[2,2] y, float[2,2] last)
<float[2] b = {1.0, 2.0}>
{
  [mm] m = MatMul(x, w)
  [fits] s = Add(m, b)
  [relu] r = Relu(s)
  [plain] t = Add(b, r)
  [mm2] m2 = MatMul(t, w)
  [variable] u = Add(z, m2)
  [mm3] k = MatMul(u, w)
  [fork] y = Add(k, b)
  [other] last = Neg(k)
}
"""


def model() -> ir.Model:
    return ir.from_onnx_text(MODEL)


def parse(body: str, header: str = "g (float[2,2] x, float[2,2] w) => (float[2,2] y)") -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 20]> {header} {{ {body} }}')


class FuseBias(Transformation, RewriteRulePass):
    def pattern(self, op, x, w, c):
        return op.Add(op.MatMul(x, w), c)

    def check(self, op, x, w, c):
        return constant(c) is not None or no("the bias is not constant", at=c)

    def rewrite(self, op, x, w, c):
        return op.Gemm(x, w, c)


def only(pattern, given: ir.Model, at: str | None = None, check=None, **options) -> Attempt:
    """Return the one attempt of a rule."""

    class Once(Transformation, RewriteRuleSetPass):
        def rules(self):
            return [Rule(pattern, lambda op, **_: None, check, name="once", **options)]

    [report] = why_not(given, Once, at=at).rules
    [attempt] = report.attempts
    return attempt


def reasons(attempt: Attempt) -> list[str]:
    return [str(stop) for stop in attempt.stops]


def test_attempts_are_sorted_by_how_far_they_came():
    [report] = why_not(model(), FuseBias).rules
    assert report.attempts[0].node == "Add 'fits'"
    assert report.attempts[-1].node == "Add 'plain'"
    assert (report.candidates, report.applies) == (4, 1)


def test_where_the_rule_applies_it_says_so():
    answer = why_not(model(), FuseBias, at="fits")
    assert answer.applies
    assert "Add 'fits': it applies here" in str(answer)
    assert answer.rules[0].attempts[0].matched == (("Add", "Add 'fits'"), ("MatMul", "MatMul 'mm'"))


def test_reason_and_place_of_a_check():
    [report] = why_not(model(), FuseBias, at="variable").rules
    [attempt] = report.attempts
    assert attempt.complete
    assert reasons(attempt) == ["the bias is not constant: 'z'"]
    assert attempt.matched == (("Add", "Add 'variable'"), ("MatMul", "MatMul 'mm2'"))


def test_value_used_elsewhere_names_the_users():
    [report] = why_not(model(), FuseBias, at="fork").rules
    assert reasons(report.attempts[0]) == ["a value inside the match is used elsewhere: 'k', used by Neg 'other'"]


def test_other_operator_and_all_orders_of_inputs():
    [report] = why_not(model(), FuseBias, at="plain").rules
    [attempt] = report.attempts
    assert not attempt.complete
    assert attempt.matched == (("Add", "Add 'plain'"),)
    assert reasons(attempt) == [
        "expected the result of MatMul, found the initializer 'b'",
        "expected MatMul, found Relu 'relu'",
    ]


def test_node_is_found_by_the_name_of_its_output():
    [report] = why_not(model(), FuseBias, at="u").rules
    assert report.attempts[0].node == "Add 'variable'"


def test_node_inside_the_pattern_shows_the_attempt_around_it():
    [report] = why_not(model(), FuseBias, at="mm2").rules
    assert report.attempts[0].node == "Add 'variable'"


def test_node_that_is_no_part_of_the_pattern():
    [report] = why_not(model(), FuseBias, at="relu").rules
    assert reasons(report.attempts[0]) == ["expected Add, found Relu 'relu'"]
    assert report.attempts[0].matched == ()


def test_rewrite_that_declines():
    attempt = only(lambda op, x: op.Relu(x), model())
    assert attempt.complete
    assert reasons(attempt) == ["rewrite declined"]


def test_rule_that_raises_is_told_and_not_raised():
    def check(op, x):
        raise ValueError("out of luck")

    attempt = only(lambda op, x: op.Relu(x), model(), check=check)
    assert "out of luck" in reasons(attempt)[0]


def test_attribute_that_differs():
    given = parse("y = Concat<axis = 0>(x, w)")
    assert reasons(only(lambda op, x, w: op.Concat(x, w, axis=1), given)) == [
        "attribute 'axis': expected 1, found 0: Concat 'y'"
    ]
    given = parse("y = Softmax(x)")
    assert reasons(only(lambda op, x: op.Softmax(x, axis=1), given)) == [
        "attribute 'axis': expected 1, found none: Softmax 'y'"
    ]


def test_constant_that_differs():
    header = "g (float[2,2] x) => (float[2,2] y) <float c = {3.0}>"
    assert reasons(only(lambda op, x: op.Div(x, 2.0), parse("y = Div(x, c)", header))) == [
        "expected the constant 2.0, found [3.0]: 'c'"
    ]
    assert reasons(only(lambda op, x: op.Div(x, 2.0), parse("y = Div(x, w)"))) == [
        "expected the constant 2.0, found the graph input 'w'"
    ]


def test_one_name_for_two_values():
    assert reasons(only(lambda op, x: op.Sub(x, x), parse("y = Sub(x, w)"))) == [
        "'x' cannot be both the graph input 'x' and the graph input 'w'"
    ]


def test_missing_input_and_surplus_input():
    assert reasons(only(lambda op, x, lo: op.Clip(x, lo), parse("y = Clip(x)"))) == ["the input 'lo' is missing"]
    assert reasons(only(lambda op, x: op.Concat(x, axis=0), parse("y = Concat<axis = 0>(x, w)"))) == [
        "expected 1 inputs, found 2: Concat 'y'"
    ]


def test_second_output():
    given = parse("p, q = Split<num_outputs = 2>(x) y = Neg(q)")
    pattern = lambda op, x: op.Neg(op.Split(x, _outputs=2)[0])  # noqa: E731
    assert reasons(only(pattern, given)) == ["expected output 0 of Split, found output 1: 'q'"]


def test_deepest_of_several_failures_wins():
    given = parse("a = Abs(x) b = Exp(a) c = Neg(b) y = Relu(c)")
    attempt = only(lambda op, x: op.Relu(op.Neg(op.Exp(op.Sin(x)))), given)
    assert [node for _, node in attempt.matched] == ["Relu 'y'", "Neg 'c'", "Exp 'b'"]
    assert reasons(attempt) == ["expected Sin, found Abs 'a'"]


def test_no_candidate_at_all():
    given = parse("y = Neg(x)")
    [report] = why_not(given, FuseBias).rules
    assert report.candidates == 0
    assert "no node of the model is Add" in str(report)


def test_constants_in_nodes_count_as_constants():
    given = parse("c = Constant<value = float {2.0}>() y = Div(x, c)")

    class Halve(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Div(x, 2.0)

        def rewrite(self, op, x):
            return op.Mul(x, 0.5)

    assert why_not(given, Halve).applies


def test_every_rule_of_a_set_answers():
    class Both(Transformation, RewriteRuleSetPass):
        def rules(self):
            return [
                Rule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x), name="first"),
                Rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="second"),
            ]

    answer = why_not(model(), Both)
    assert [(report.rule, report.applies) for report in answer.rules] == [("first", 1), ("second", 0)]


def test_members_of_a_group_answer():
    class Plain(Transformation):
        def call(self, model):
            return PassResult(model, modified=False)

    answer = why_not(model(), Group(body=(Plain, FuseBias)))
    assert [report.rule for report in answer.rules] == ["FuseBias"]


def test_what_the_rule_needs_is_run_first():
    class Mark(Annotation):
        def call(self, model):
            model.metadata_props["marked"] = "yes"
            return PassResult(model, modified=True)

    class Marked(FuseBias):
        needs = (Mark,)

        def check(self, op, x, w, c):
            return op.model.metadata_props.get("marked") == "yes" or no("not marked")

    given = model()
    answer = why_not(given, Marked)
    assert answer.applies
    assert answer.before == ("mark",)
    assert "marked" not in given.metadata_props


def test_subgraphs_are_searched():
    given = parse(
        "y = If(c) <then_branch = t () => (float[2,2] p) { p = Relu(x) }, else_branch = e () => (float[2,2] q) "
        "{ q = Neg(x) }>",
        "g (float[2,2] x, bool c) => (float[2,2] y)",
    )
    assert only(lambda op, x: op.Relu(x), given).node == "Relu 'p'"
    assert only(lambda op, x: op.Relu(x), given, at="q").node == "Neg 'q'"


def test_several_roots():
    given = parse("a = Relu(x) b = Neg(x) y = Add(a, b)")
    pattern = lambda op, x: (op.Relu(x), op.Abs(x))  # noqa: E731
    attempt = only(pattern, given)
    assert attempt.matched == (("Relu", "Relu 'a'"),)
    assert reasons(attempt) == ["expected Abs, found Relu 'a'", "expected Abs, found Neg 'b'"]


def test_only_the_best_are_kept_and_the_rest_is_summed_up():
    body = " ".join(f"v{i + 1} = Add(v{i}, w)" for i in range(30)).replace("v0", "x").replace("v30", "y")
    [report] = why_not(parse(body), FuseBias, top=2).rules
    assert len(report.attempts) == 2
    assert report.candidates == 30
    assert report.reasons["expected MatMul, found Add"] == 29
    assert "and 28 more; of all: 30 × expected the result of MatMul" in str(report)


def test_model_is_left_as_it_is():
    given = model()
    before = ir.to_proto(given).SerializeToString()
    why_not(given, FuseBias)
    assert ir.to_proto(given).SerializeToString() == before


def test_plain_data():
    data = why_not(model(), FuseBias, at="variable").to_json()
    assert data["applies"] is False
    [attempt] = data["rules"][0]["attempts"]
    assert attempt["matched"][1] == {"pattern": "MatMul", "node": "MatMul 'mm2'"}
    assert attempt["reasons"] == ["the bias is not constant: 'z'"]


def test_pass_that_is_no_rule_is_refused():
    with pytest.raises(UsageError, match="'shape-inference' is not made of rewrite rules"):
        why_not(model(), "shape-inference")


@pytest.mark.parametrize(
    ("name", "words"), [("varable", "did you mean 'variable'?"), ("b", "not computed by a node"), ("x", "not computed")]
)
def test_unknown_node_is_refused(name, words):
    with pytest.raises(UsageError) as caught:
        why_not(model(), FuseBias, at=name)
    assert words in str(caught.value)


FOLDING = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x, float[2] w) => (float[2] y, float[2] z, float[2] v, float[2] u)
<float[2] w = {1.0, 2.0}, float[2] c = {1.0, 4.0}, int8[2] q = {1, 2}, float s = {0.5}>
{
  [root] r = Sqrt(c)
  [variable] y = Add(x, r)
  [weights] d = DequantizeLinear(q, s)
  [scaled] z = Mul(x, d)
  [default] e = Neg(w)
  [used] v = Add(x, e)
  [random] n = RandomNormal <shape = [2]> ()
  [noisy] u = Add(x, n)
}
"""


def test_passes_written_by_hand_say_where_they_apply():
    answer = why_not(ir.from_onnx_text(FOLDING), "fold-constants", at="root")
    [report] = answer.rules
    assert (report.rule, report.applies) == ("result of constants", 1)
    assert answer.applies
    assert "Sqrt 'root': it applies here" in str(answer)
    assert answer.before == ("shape-inference",)


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("variable", "Add 'variable': an input is not constant: 'x'"),
        ("weights", "DequantizeLinear 'weights': weights would grow (dequantize)"),
        ("default", "Neg 'default': on defaults of inputs, constant only after remove-initializers-from-inputs"),
        ("random", "RandomNormal 'random': its result is random"),
    ],
)
def test_passes_written_by_hand_give_their_reasons(at: str, reason: str):
    answer = why_not(ir.from_onnx_text(FOLDING), "fold-constants", at=at)
    assert not answer.applies
    assert reason in str(answer).splitlines()[-1]


def test_reasons_that_are_given_less_often_come_first():
    [report] = why_not(ir.from_onnx_text(FOLDING), "fold-constants").rules
    assert report.applies == 1
    assert [attempt.stops[0].reason for attempt in report.attempts if attempt.stops][-1] == "an input is not constant"
    assert report.to_json()["reasons"]["an input is not constant"] == 4


def test_nodes_that_a_pass_does_not_look_at():
    answer = why_not(ir.from_onnx_text(FOLDING), "eliminate-zero-state", at="root")
    assert str(answer) == "it considered no rewrite there"


def test_the_model_stays_as_it_is():
    given = ir.from_onnx_text(FOLDING)
    before = str(given)
    why_not(given, "fold-constants")
    assert str(given) == before
