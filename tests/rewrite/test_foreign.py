"""Rules of onnxscript and passes of onnx_ir, registered and run by name like our own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnx_ir.passes.common as onnx_ir_passes
import onnxscript.rewriter.rules.common as shipped
import pytest
from onnxscript.rewriter import pattern

from onnx_passes import passes
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.manager import Manager, Outcome
from onnx_passes.core.plan import plan
from onnx_passes.core.registry import REGISTRY
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.foreign import adapt, from_onnxscript
from tests.rewrite.support import apply, assert_same_results, assert_valid, operators, parse

CHAIN = """
g (float[2] x) => (float[2] y) {
  a = Neg(x)
  b = Neg(a)
  c = Relu(b)
  d = Relu(c)
  y = Abs(d)
}
"""


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Leave the registry as it was found."""
    saved = {name: dict(part) if isinstance(part, dict) else part for name, part in vars(REGISTRY).items()}
    yield
    vars(REGISTRY).update(saved)


def neg_neg(op: Any, x: Any) -> Any:
    return op.Neg(op.Neg(x))


def relu_relu(op: Any, x: Any) -> Any:
    return op.Relu(op.Relu(x))


def make_rule(name: str | None = None, **options: Any) -> pattern.RewriteRule:
    return pattern.RewriteRule(neg_neg, lambda op, x: op.Identity(x), name=name, **options)


class RemoveDoubleNeg(pattern.RewriteRuleClassBase):
    """Two negations are none."""

    def pattern(self, op: Any, x: Any) -> Any:
        return neg_neg(op, x)

    def check(self, context: Any, x: ir.Value) -> pattern.MatchResult:
        result = pattern.MatchResult()
        return result if x.name != "never" else result.fail("never")

    def rewrite(self, op: Any, x: Any) -> Any:
        return op.Identity(x)


class NeedsAnArgument(RemoveDoubleNeg):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit


def run_by_name(name: str, text: str = CHAIN) -> Outcome:
    model = parse(text)
    outcome = Manager().run(plan(name), model)
    assert_valid(outcome.model)
    assert_same_results(parse(text), outcome.model)
    return outcome


class TestRegistered:
    def test_rule(self) -> None:
        rule = make_rule()
        assert passes.register("remove-double-neg")(rule) is rule
        outcome = run_by_name("remove-double-neg")
        assert operators(outcome.model) == ["Identity", "Relu", "Relu", "Abs"]
        [step] = outcome.record.steps
        assert (step.name, step.applications, step.rules[0].applied) == ("remove-double-neg", 1, 1)

    def test_rule_with_a_name_of_its_own(self) -> None:
        passes.register()(make_rule("DoubleNeg"))
        assert operators(run_by_name("double-neg").model)[0] == "Identity"

    def test_rule_set(self) -> None:
        rules = pattern.RewriteRuleSet([make_rule("a"), pattern.RewriteRule(relu_relu, lambda op, x: op.Relu(x))])
        passes.register("clean-chain")(rules)
        outcome = run_by_name("clean-chain")
        assert operators(outcome.model) == ["Identity", "Relu", "Abs"]
        assert [record.name for record in outcome.record.steps[0].rules] == ["a", "anonymous"]

    def test_rule_set_that_swaps_inputs(self) -> None:
        def scaled_sum(op: Any, x: Any, y: Any) -> Any:
            return op.Mul(op.Add(op.Relu(x), y), op.Exp(y))

        rule = pattern.RewriteRule(scaled_sum, lambda op, x, y: op.Mul(op.Sum(op.Relu(x), y), op.Exp(y)))
        rules = pattern.RewriteRuleSet([rule, make_rule("other")], commute=True)
        assert len(rules.rules) == 4 + 1
        passes.register("sum-it")(rules)
        text = "g (float[2] x, float[2] y) => (float[2] z) { e = Exp(y) r = Relu(x) s = Add(y, r) z = Mul(e, s) }"
        outcome = run_by_name("sum-it", text)
        assert "Sum" in operators(outcome.model)
        # One rule that matches in any order, not a copy for each order.
        assert len(outcome.record.steps[0].rules) == 2

    def test_rules_that_only_share_a_rewrite_are_all_kept(self) -> None:
        shared = make_rule("one")
        other = pattern.RewriteRule(lambda op, x: op.Abs(op.Neg(x)), shared._replacement_pattern, name="two")
        passes.register("both")(pattern.RewriteRuleSet([shared, other]))
        outcome = run_by_name("both", "g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Abs(b) }")
        assert len(outcome.record.steps[0].rules) == 2

    def test_rule_class(self) -> None:
        passes.register("by-class")(RemoveDoubleNeg)
        outcome = run_by_name("by-class")
        assert operators(outcome.model)[0] == "Identity"
        assert "rule 'by-class'" not in str(outcome.record.steps[0].rules)
        assert REGISTRY.find("by-class").entries[0].summary == "Two negations are none."

    def test_rule_class_under_its_own_name(self) -> None:
        passes.register()(RemoveDoubleNeg)
        assert operators(run_by_name("remove-double-neg").model)[0] == "Identity"

    def test_rule_class_that_needs_arguments_is_refused(self) -> None:
        with pytest.raises(RegistrationError, match=r"rule class 'NeedsAnArgument' cannot be set up.*\.rule\(…\)"):
            passes.register("x")(NeedsAnArgument)
        passes.register("x")(NeedsAnArgument.rule(3))

    def test_list_of_rules_sets_and_classes(self) -> None:
        relu = pattern.RewriteRule(relu_relu, lambda op, x: op.Relu(x), name="relu")
        passes.register("a-list")([pattern.RewriteRuleSet([relu]), RemoveDoubleNeg, make_rule("again")])
        outcome = run_by_name("a-list")
        assert operators(outcome.model) == ["Identity", "Relu", "Abs"]
        assert len(outcome.record.steps[0].rules) == 3

    def test_pass_class_of_onnx_ir(self) -> None:
        passes.register("drop-identities")(onnx_ir_passes.IdentityEliminationPass)
        text = "g (float[2] x) => (float[2] y) { a = Relu(x) b = Identity(a) y = Abs(b) }"
        assert operators(run_by_name("drop-identities", text).model) == ["Relu", "Abs"]

    def test_pass_class_under_its_own_name(self) -> None:
        passes.register()(onnx_ir_passes.IdentityEliminationPass)
        text = "g (float[2] x) => (float[2] y) { a = Relu(x) b = Identity(a) y = Abs(b) }"
        assert operators(run_by_name("identity-elimination", text).model) == ["Relu", "Abs"]

    def test_pass_object_of_onnx_ir(self) -> None:
        passes.register("lift-all")(
            onnx_ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)
        )
        text = "g (float[2] x) => (float[2] y) { c = Constant<value = float[2] {1, 2}>() y = Add(x, c) }"
        outcome = run_by_name("lift-all", text)
        assert operators(outcome.model) == ["Add"]
        assert outcome.record.steps[0].modified

    def test_further_names_are_groups(self) -> None:
        passes.register("first-part", "tidy")(make_rule())
        passes.register("second-part", "tidy")(pattern.RewriteRule(relu_relu, lambda op, x: op.Relu(x)))
        assert operators(run_by_name("tidy").model) == ["Identity", "Relu", "Abs"]

    @pytest.mark.parametrize("thing", [None, 3, "text", [], [make_rule(), 3], object(), dict])
    def test_anything_else_is_refused(self, thing: Any) -> None:
        with pytest.raises(RegistrationError, match="is no pass"):
            passes.register("thing")(thing)

    def test_without_any_name_is_refused(self) -> None:
        with pytest.raises(RegistrationError, match="has no name of its own"):
            passes.register()(make_rule())

    def test_odd_names_still_make_a_pass(self) -> None:
        passes.register()(make_rule("Fuse: neg/neg (v2)"))
        assert operators(run_by_name("fuse-neg-neg-v2").model)[0] == "Identity"


class TestRefusedRules:
    def test_that_make_functions(self) -> None:
        rule = pattern.RewriteRule(neg_neg, lambda op, x: op.F(x, _domain="f"), name="as-f", as_function=True)
        with pytest.raises(RegistrationError, match="'as-f' moves its match into a function"):
            adapt(rule)

    def test_with_a_matcher_of_their_own(self) -> None:
        class Matcher(pattern.SimplePatternMatcher):
            pass

        rule = pattern.RewriteRule(neg_neg, lambda op, x: x, matcher=Matcher, name="special")
        with pytest.raises(RegistrationError, match="'special' has a matcher of its own, Matcher"):
            adapt(rule)


class TestBehaviour:
    def test_rules_that_leave_nodes_may_duplicate(self) -> None:
        text = "g (float[2] x) => (float[2] y, float[2] a) { a = Neg(x) y = Neg(a) }"
        assert rewrite(parse(text), [from_onnxscript(make_rule())]) == 0
        model = parse(text)
        assert apply(model, from_onnxscript(make_rule(remove_nodes=False))) == 1

    def test_setup_and_cleanup_are_called(self) -> None:
        calls: list[str] = []

        class Stateful(RemoveDoubleNeg):
            def setup(self) -> None:
                calls.append("setup")

            def cleanup(self) -> None:
                calls.append("cleanup")

            def rewrite(self, op: Any, x: Any) -> Any:
                calls.append("rewrite")
                return super().rewrite(op, x)

        rewrite(parse(CHAIN), [from_onnxscript(Stateful.rule())])
        assert calls == ["setup", "rewrite", "cleanup"]

    def test_domains_may_be_matched_by_their_beginning(self) -> None:
        def elu(op: Any, x: Any) -> Any:
            return pattern.torch_module_op.Elu(op.Relu(x))

        header = '<ir_version: 10, opset_import: ["": 20, "pkg.torch.nn": 1]>\n'
        model = parse("g (float[2] x) => (float[2] y) { t = Relu(x) y = pkg.torch.nn.Elu(t) }", header)
        rule = pattern.RewriteRule(elu, lambda op, x: op.Abs(x))
        assert rewrite(model, [from_onnxscript(rule)]) == 1
        assert [node.op_type for node in model.graph] == ["Abs"]

    def test_reasons_of_match_results_are_counted(self) -> None:
        class Reluctant(RemoveDoubleNeg):
            def check(self, context: Any, x: ir.Value) -> pattern.MatchResult:
                return pattern.MatchResult().fail("not this one", x)

        passes.register("reluctant")(Reluctant)
        [step] = run_by_name("reluctant").record.steps
        assert step.rules[0].refused == {"not this one": 1}

    def test_the_context_of_a_check_has_what_onnxscript_promises(self) -> None:
        seen: list[Any] = []

        def check(context: Any, x: ir.Value) -> bool:
            seen.append((context.model, context.graph_or_function, context.root, context.nodes, context.output_values))
            return False

        model = parse(CHAIN)
        rule = pattern.RewriteRule(neg_neg, lambda op, x: x, check)
        rewrite(model, [from_onnxscript(rule)])
        [(in_model, graph, root, nodes, outputs)] = seen
        assert in_model is model
        assert graph is model.graph
        assert root.outputs[0].name == "b"
        assert [node.op_type for node in nodes] == ["Neg", "Neg"]
        assert [item.name for item in outputs] == ["b"]


SHIPPED = sorted(shipped.__all__)

FOOD = """
g (float[2, 4] x, float[1, 2, 4, 4] image) => (float[2, 4] y, float[1, 3, 4, 4] z, float[4, 2] w)
<float zero = {0}, float one = {1}, float[4, 4] m = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}, float[4] bias = {1, 2, 3, 4},
 float[3] none = {0, 0, 0}, int64[1] flat = {8}, int64[2] back = {2, 4}, float lo = {0}, float hi = {6}>
{
  a = Add(x, zero)
  b = Mul(a, one)
  c = Sub(b, zero)
  d = Div(c, one)
  e = Relu(d)
  f = Relu(e)
  h = Clip(f, lo, hi)
  i = Relu(h)
  j = Reshape(i, flat)
  k = Reshape(j, back)
  l = Cast<to = 1>(k)
  n = Dropout(l)
  o = MatMul(n, m)
  p = Add(o, bias)
  q = Transpose<perm = [1, 0]>(p)
  r = Transpose<perm = [1, 0]>(q)
  t = Transpose<perm = [0, 1]>(r)
  u = Min(t, hi)
  y = Max(u, lo)
  w = Transpose<perm = [1, 0]>(y)
  kernel = Constant<value = float[3, 2, 1, 1] {1, 0, 0, 1, 1, 1}>()
  conv = Conv(image, kernel, none)
  z = Relu(conv)
}
"""


def food() -> ir.Model:
    """Build a model that many shipped rules find something in; they need types and shapes."""
    return ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(parse(FOOD))))


class TestShippedRules:
    @pytest.mark.parametrize("name", SHIPPED)
    def test_adapts_and_runs(self, name: str) -> None:
        thing = getattr(shipped, name)
        adapted = adapt(thing() if inspect.isfunction(thing) else thing, name)
        assert adapted is not None
        outcome = Manager().run(plan(adapted()), food())
        assert_valid(outcome.model)
        assert_same_results(food(), outcome.model)

    def test_many_fit_and_agree_with_the_original(self) -> None:
        model = food()
        rules = [thing for name in SHIPPED if isinstance(thing := getattr(shipped, name), pattern.RewriteRule)]
        assert len(rules) > 40
        # This one undoes what those that make a Gemm do.
        rules.remove(shipped.gemm_to_matmul_add_rule)
        count = rewrite(model, [from_onnxscript(rule) for rule in rules])
        assert count >= 8
        assert_valid(model)
        assert_same_results(food(), model, {"x": np.arange(-4, 4, dtype=np.float32).reshape(2, 4)})
