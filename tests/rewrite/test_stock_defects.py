"""Models that onnxscript's own driver breaks, or cannot finish, and ours rewrites rightly.

Each stock test says what would be right and is expected to fail; should it pass one day, nothing breaks.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import pattern

from onnx_passes.core.errors import BudgetError, RewriteError
from onnx_passes.graph import annotations
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.foreign import from_onnxscript
from tests.rewrite.support import apply, assert_valid, operators, parse, rule, run, uses, value

stock_is_wrong = pytest.mark.xfail(strict=False, reason="defect of onnxscript's driver")


def neg_neg(op: Any, x: Any) -> Any:
    return op.Neg(op.Neg(x))


def keep_x(op: Any, x: Any) -> Any:
    return x


NEG_NEG = """
g (float[2] x) => (float[2] y) {
  a = Neg(x)
  u = Neg(a)
  y = Relu(u)
}
"""


class TestReturningAnExistingValue:
    """The other driver gives the value the name of what it replaces, even if it is a graph input."""

    def test_graph_input_keeps_its_name(self) -> None:
        model = parse(NEG_NEG)
        assert apply(model, rule(neg_neg, keep_x)) == 1
        assert [i.name for i in model.graph.inputs] == ["x"]
        assert operators(model) == ["Relu"]

    @stock_is_wrong
    def test_stock(self) -> None:
        model = parse(NEG_NEG)
        pattern.RewriteRule(neg_neg, keep_x).apply_to_model(model)
        assert [i.name for i in model.graph.inputs] == ["x"]


class TestInitializersOfOneName:
    """The other driver lets a new initializer overwrite one that has its name; the old value dangles."""

    TEXT = """
    g (float[2] x) => (float[2] y, float[2] z) {
      y = Relu(x)
      z = Abs(x)
    }
    """

    @staticmethod
    def add_one(op: Any, x: Any) -> Any:
        return op.Max(x, op.initializer(ir.tensor([0.0], name="c")))

    @staticmethod
    def add_two(op: Any, x: Any) -> Any:
        return op.Max(x, op.Sub(op.initializer(ir.tensor([0.0], name="c")), x))

    def test_both_are_there_under_names_of_their_own(self) -> None:
        model = parse(self.TEXT)
        rules = [rule(lambda op, x: op.Relu(x), self.add_one), rule(lambda op, x: op.Abs(x), self.add_two)]
        assert apply(model, *rules) == 2
        assert sorted(model.graph.initializers) == ["c", "c_1"]

    @stock_is_wrong
    def test_stock(self) -> None:
        model = parse(self.TEXT)
        first = pattern.RewriteRule(lambda op, x: op.Relu(x), self.add_one)
        second = pattern.RewriteRule(lambda op, x: op.Abs(x), self.add_two)
        pattern.RewriteRuleSet([first, second]).apply_to_model(model)
        assert len(model.graph.initializers) == 2
        assert_valid(model)


class TestMoreOutputsThanTheNodeHas:
    """The other driver takes it for a match without outputs and fails later."""

    TEXT = """
    g (float[2] x) => (float[2] y) {
      y = Dropout(x)
    }
    """

    @staticmethod
    def with_mask(op: Any, x: Any) -> Any:
        dropped, _mask = op.Dropout(x, _outputs=2)
        return dropped

    def test_is_no_match(self) -> None:
        model = parse(self.TEXT)
        assert apply(model, rule(self.with_mask, lambda op, x: op.Identity(x))) == 0

    @stock_is_wrong
    def test_stock(self) -> None:
        model = parse(self.TEXT)
        assert pattern.RewriteRule(self.with_mask, lambda op, x: op.Identity(x)).apply_to_model(model) == 0


class TestDeclinedRewrites:
    """The other driver leaves the nodes of a declined rewrite in the uses of values, and imports their domain."""

    @staticmethod
    def decline(op: Any, x: Any) -> Any:
        op.Something(x, _domain="somewhere", _version=3)
        op.Neg(op.Abs(x))

    def test_leave_no_use_and_no_import(self) -> None:
        model = parse(NEG_NEG)
        before = uses(model)
        assert rewrite(model, [rule(neg_neg, self.decline)]) == 0
        assert uses(model) == before
        assert dict(model.opset_imports) == {"": 20}

    @stock_is_wrong
    def test_stock_leaves_no_use(self) -> None:
        model = parse(NEG_NEG)
        before = uses(model)
        pattern.RewriteRule(neg_neg, self.decline).apply_to_model(model)
        assert uses(model) == before

    @stock_is_wrong
    def test_stock_imports_nothing_for_a_refused_function(self) -> None:
        model = parse(
            """
            g (float[2] x) => (float[2] y) { y = local.f(x) }
            <domain: "local", opset_import: ["": 20]>
            f (x) => (y) { y = Relu(x) }
            """,
            '<ir_version: 10, opset_import: ["": 20, "local": 1]>\n',
        )

        def with_initializer(op: Any, x: Any) -> Any:
            return op.Clip(x, op.initializer(ir.tensor(0.0, name="zero")), _domain="somewhere")

        pattern.RewriteRule(lambda op, x: op.Relu(x), with_initializer).apply_to_model(model)
        assert "somewhere" not in model.opset_imports


class TestAnnotations:
    """The other driver drops metadata and quantization annotations of the values that it replaces."""

    @staticmethod
    def annotated() -> ir.Model:
        model = parse(NEG_NEG)
        u = value(model, "u")
        annotations.set(u, {"finn_datatype": "INT4"})
        u.metadata_props["layer"] = "first"
        u.doc_string = "the sum"
        return model

    def test_go_to_the_new_value(self) -> None:
        model = self.annotated()
        assert apply(model, rule(neg_neg, lambda op, x: op.Identity(x))) == 1
        u = value(model, "u")
        assert u.producer() is not None
        assert annotations.get(u) == {"finn_datatype": "INT4"}
        assert (u.metadata_props, u.doc_string) == ({"layer": "first"}, "the sum")
        [written] = ir.to_proto(model).graph.quantization_annotation
        assert written.tensor_name == "u"

    @stock_is_wrong
    def test_stock(self) -> None:
        model = self.annotated()
        pattern.RewriteRule(neg_neg, lambda op, x: op.Identity(x)).apply_to_model(model)
        assert annotations.get(value(model, "u")) == {"finn_datatype": "INT4"}


class TestAlternativesThatBacktrack:
    """The other driver forgets what the chosen alternative bound: its checks are not called, nodes match twice."""

    TEXT = """
    g (float[2] x) => (float[2] y) {
      a = Relu(x)
      y = Neg(a)
    }
    """

    @staticmethod
    def refusing(op: Any, x: Any) -> Any:
        relu = op.Relu(x, _check=lambda context, node: False)
        return op.Neg(pattern.OrValue([relu, op.Relu(op.Abs(x))]))

    def test_checks_inside_are_called(self) -> None:
        assert apply(parse(self.TEXT), rule(self.refusing, lambda op, x: op.Abs(x))) == 0

    @stock_is_wrong
    def test_stock_calls_checks(self) -> None:
        assert pattern.RewriteRule(self.refusing, lambda op, x: op.Abs(x)).apply_to_model(parse(self.TEXT)) == 0

    SHARED = """
    g (float[2] x, float[2] z) => (float[2] y) {
      a = Relu(x)
      b = Relu(z)
      y = Add(a, b)
    }
    """

    @staticmethod
    def one_relu_twice(op: Any, other: Any) -> Any:
        relu = op.Relu(pattern.ANY_VALUE)
        return op.Add(pattern.OrValue([relu, other], tag_var="tag", tag_values=["relu", "other"]), relu)

    def test_a_node_of_the_pattern_stands_for_one_node(self) -> None:
        tags: list[str] = []

        def check(context: Any, tag: str) -> bool:
            tags.append(tag)
            return False

        rewrite(parse(self.SHARED), [rule(self.one_relu_twice, lambda op: None, check, commute=False)])
        assert tags == ["other"]

    @stock_is_wrong
    def test_stock_binds_a_node_once(self) -> None:
        tags: list[str] = []

        def check(context: Any, tag: str, **_: Any) -> bool:
            tags.append(tag)
            return False

        pattern.RewriteRule(self.one_relu_twice, lambda op: None, check).apply_to_model(parse(self.SHARED))
        assert tags == ["other"]


class TestSwappedInputsWithSeveralRoots:
    """Swapped copies of a pattern with several roots never match there."""

    TEXT = """
    g (float[2] x, float[2] a, float[2] b, float[2] c) => (float[2] p, float[2] q, float[2] r) {
      p = Add(a, x)
      q = Mul(b, x)
      r = Max(c, x)
    }
    """

    @staticmethod
    def roots(op: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
        return op.Add(x, a), op.Mul(x, b), op.Max(x, c)

    @staticmethod
    def replaced(op: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
        return op.Sum(x, a), op.Mul(op.Neg(b), op.Neg(x)), op.Neg(op.Min(op.Neg(c), op.Neg(x)))

    def test_match_in_any_order(self) -> None:
        model = parse(self.TEXT)
        assert apply(model, rule(self.roots, self.replaced)) == 1
        assert "Sum" in operators(model)

    @stock_is_wrong
    def test_stock(self) -> None:
        swapped = pattern.RewriteRuleSet([pattern.RewriteRule(self.roots, self.replaced)], commute=True)
        assert swapped.apply_to_model(parse(self.TEXT)) == 1


class TestSwappingVariadicInputs:
    """Asked to swap the inputs of a Sum of one or three, the other driver fails on an assertion."""

    @pytest.mark.parametrize("text", ["s = Sum(x)", "s = Sum(x, x)", "s = Sum(r, x, x)", "s = Sum(x, x, r)"])
    def test_works_for_any_number(self, text: str) -> None:
        model = parse(f"g (float[2] x) => (float[2] y) {{ r = Relu(x) {text} y = Neg(s) }}")
        three = rule(lambda op, x, r: op.Sum(x, x, op.Relu(r)), lambda op, x, r: op.Add(op.Add(op.Relu(r), x), x))
        one = rule(lambda op, x: op.Sum(x), keep_x)
        assert apply(model, three, one) == (0 if text == "s = Sum(x, x)" else 1)

    @stock_is_wrong
    def test_stock(self) -> None:
        three = pattern.RewriteRule(lambda op, x, y, z: op.Sum(x, y, z), lambda op, x, y, z: op.Add(op.Add(x, y), z))
        pattern.RewriteRuleSet([three], commute=True)


class TestRulesThatNeverEnd:
    """The other driver rewrites forever within one sweep."""

    def test_end_with_an_error_that_names_the_rule(self) -> None:
        looping = rule(lambda op, x: op.Neg(x), lambda op, x: op.Neg(x), name="neg-to-neg")
        with pytest.raises(BudgetError, match=r"'neg-to-neg'.*test_stock_defects\.py:"):
            rewrite(parse(NEG_NEG), [looping])

    @stock_is_wrong
    def test_stock(self) -> None:
        def give_up(op: Any, x: Any, count: list[int] = []) -> Any:  # noqa: B006 - counts over calls
            count.append(1)
            if len(count) > 3000:
                raise RecursionError("still rewriting")
            return op.Neg(x)

        pattern.RewriteRule(lambda op, x: op.Neg(x), give_up).apply_to_model(parse(NEG_NEG))


class TestManyRoots:
    """The other driver tries all combinations of nodes, checks the first that fits, and lets one be two roots."""

    @staticmethod
    def three(op: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
        return op.MatMul(x, a), op.MatMul(x, b), op.MatMul(x, c)

    def test_three_roots_among_two_hundred_cost_little(self) -> None:
        lines = "\n".join(f"y{i} = MatMul(x{i}, w)" for i in range(200))
        inputs = ", ".join(f"float[2, 2] x{i}" for i in range(200))
        outputs = ", ".join(f"float[2, 2] y{i}" for i in range(200))
        model = parse(f"g ({inputs}, float[2, 2] w) => ({outputs}) {{ {lines} }}")
        merging = rule(self.three, lambda op, x, a, b, c: None)
        started = time.process_time()
        assert rewrite(model, [merging]) == 0
        assert time.process_time() - started < 2.0  # 81 s there

    PAIRS = """
    g (float[2] x, float[2] a, float[2] b, float[2] c) => (float[2] p, float[2] q, float[2] r) {
      p = Sub(x, a)
      q = Sub(x, b)
      r = Sub(x, c)
    }
    """

    @staticmethod
    def two(op: Any, x: Any, a: Any, b: Any) -> Any:
        return op.Sub(x, a), op.Sub(x, b)

    @staticmethod
    def wants_c(context: Any, a: Any, b: Any, **_: Any) -> bool:
        return (a.name, b.name) == ("a", "c")

    @staticmethod
    def negate(op: Any, x: Any, a: Any, b: Any) -> Any:
        return op.Add(x, op.Neg(a)), op.Add(x, op.Neg(b))

    def test_all_combinations_are_checked(self) -> None:
        model = parse(self.PAIRS)
        assert apply(model, rule(self.two, self.negate, self.wants_c)) == 1
        assert sorted(operators(model)) == ["Add", "Add", "Neg", "Neg", "Sub"]

    @stock_is_wrong
    def test_stock_checks_all_combinations(self) -> None:
        assert pattern.RewriteRule(self.two, self.negate, self.wants_c).apply_to_model(parse(self.PAIRS)) == 1

    def test_two_roots_are_two_nodes(self) -> None:
        model = parse("g (float[2] x, float[2] a) => (float[2] p) { p = Sub(x, a) }")
        assert apply(model, rule(self.two, self.negate)) == 0

    @stock_is_wrong
    def test_stock_binds_two_nodes(self) -> None:
        model = parse("g (float[2] x, float[2] a) => (float[2] p) { p = Sub(x, a) }")
        assert pattern.RewriteRule(self.two, self.negate).apply_to_model(model) == 0


class TestOrderAfterSeveralRoots:
    """The other driver inserts everything after the first root: users of other roots may come before it."""

    TEXT = """
    g (float[2] x, float[2] a) => (float[2] y, float[2] z) {
      q = Mul(x, a)
      z = Relu(q)
      p = Add(x, z)
      y = Neg(p)
    }
    """
    SIMPLE = """
    g (float[2] x, float[2] a, float[2] b) => (float[2] y, float[2] z) {
      p = Sub(x, a)
      y = Neg(p)
      c = Abs(b)
      q = Sub(x, c)
      z = Neg(q)
    }
    """

    @staticmethod
    def both(op: Any, x: Any, a: Any, b: Any) -> Any:
        return op.Sub(x, a), op.Sub(x, op.Abs(b, _outputs=["c"]))

    @staticmethod
    def swap_signs(op: Any, x: Any, a: Any, c: Any, **_: Any) -> Any:
        return op.Add(x, op.Neg(a)), op.Add(x, op.Neg(c))

    def test_the_graph_is_sorted(self) -> None:
        model = parse(self.SIMPLE)
        assert apply(model, rule(self.both, self.swap_signs)) == 1

    @stock_is_wrong
    def test_stock(self) -> None:
        model = parse(self.SIMPLE)
        assert pattern.RewriteRule(self.both, self.swap_signs).apply_to_model(model) == 1
        assert_valid(model)

    def test_a_fusion_that_would_close_a_cycle_is_refused(self) -> None:
        model = parse(self.TEXT)
        fused = rule(
            lambda op, x, a, z: (op.Mul(x, a), op.Add(x, z)),
            lambda op, x, a, z: op.Both(x, a, z, _domain="fused", _outputs=2),
        )
        assert apply(model, fused) == 0


class TestNumbersInARewrite:
    """The other driver fails with an AttributeError about a private method."""

    TEXT = "g (float16[2] x) => (float16[2] y) { y = Relu(x) }"

    @staticmethod
    def with_number(op: Any, x: Any) -> Any:
        return op.Max(x, 0.0)

    def test_become_constants_of_the_right_type(self) -> None:
        model = parse(self.TEXT)
        assert apply(model, rule(lambda op, x: op.Relu(x), self.with_number)) == 1
        [constant] = model.graph.initializers.values()
        assert constant.dtype == ir.DataType.FLOAT16

    @stock_is_wrong
    def test_stock(self) -> None:
        pattern.RewriteRule(lambda op, x: op.Relu(x), self.with_number).apply_to_model(parse(self.TEXT))


class TestErrorsInARule:
    """There they come without a word on the rule or the node."""

    def broken(self, op: Any, x: Any) -> Any:
        return {}["missing"]

    @pytest.mark.parametrize("part", ["check", "rewrite"])
    def test_name_the_rule_its_place_and_the_node(self, part: str) -> None:
        methods = {"rewrite": (self.broken, None), "check": (keep_x, self.broken)}[part]
        broken = rule(neg_neg, *methods, name="broken-rule")
        with pytest.raises(RewriteError) as caught:
            rewrite(parse(NEG_NEG), [broken])
        for text in (part, "'broken-rule'", "test_stock_defects.py:", "KeyError: 'missing'", "Neg 'u'"):
            assert text in str(caught.value)
        assert isinstance(caught.value.__cause__, KeyError)

    @stock_is_wrong
    def test_stock(self) -> None:
        with pytest.raises(Exception, match="broken-rule"):
            pattern.RewriteRule(neg_neg, self.broken, name="broken-rule").apply_to_model(parse(NEG_NEG))


class TestCopiesOfAPattern:
    """The other driver copies patterns to swap inputs, and a copy may forget that an input is optional."""

    TEXT = """
    g (float[2] x, float lo) => (float[2] y) {
      c = Clip(x, lo)
      y = Add(c, x)
    }
    """

    @staticmethod
    def clipped(op: Any, x: Any, lo: Any) -> Any:
        anything = pattern.Var(None, can_match_none=True)
        return op.Add(x, op.Clip(x, lo, anything))

    @staticmethod
    def replaced(op: Any, x: Any, lo: Any) -> Any:
        return op.Sum(op.Max(x, lo), x)

    def test_an_optional_input_stays_optional_in_any_order(self) -> None:
        assert apply(parse(self.TEXT), rule(self.clipped, self.replaced)) == 1

    def test_rule_sets_with_swapped_copies_are_taken_back_to_one_rule(self) -> None:
        copies = pattern.RewriteRuleSet([pattern.RewriteRule(self.clipped, self.replaced)], commute=True)
        assert len(copies.rules) == 2
        assert apply(parse(self.TEXT), from_onnxscript(copies.rules[0], commute=True)) == 1

    def test_a_value_pattern_without_a_name_keeps_its_check(self) -> None:
        asked: list[str | None] = []

        def wanted(context: Any, candidate: ir.Value) -> bool:
            asked.append(candidate.name)
            return candidate.name == "x"

        model = parse(self.TEXT)
        tested = rule(lambda op, y: op.Add(wanted, y), lambda op, y: op.Sum(value(model, "x"), y))
        assert apply(model, tested) == 1
        assert asked == ["c", "x"]


def test_a_rule_that_fires_twice_with_the_same_constant_name_computes_right() -> None:
    model = parse(
        """
        g (float[2] x) => (float[2] y) {
          a = Relu(x)
          b = Neg(a)
          y = Relu(b)
        }
        """
    )
    clip = rule(lambda op, x: op.Relu(x), lambda op, x: op.Max(x, op.initializer(np.zeros(1, np.float32), name="c")))
    assert apply(model, clip) == 2
    np.testing.assert_array_equal(run(model, {"x": np.array([3, -2], np.float32)})["y"], [0, 0])
