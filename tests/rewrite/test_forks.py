"""Values inside a match that are used outside of it too."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_passes.rewrite.driver import rewrite
from tests.rewrite.support import Watch, apply, assert_valid, operators, parse, rule

FORKED = """
g (float[2] x) => (float[2] y, float[2] z) {
  a = Relu(x)
  y = Neg(a)
  z = Exp(a)
}
"""
INTERIOR_IS_OUTPUT = """
g (float[2] x) => (float[2] y, float[2] a) {
  a = Relu(x)
  y = Neg(a)
}
"""
EXPENSIVE = """
g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
  a = MatMul(x, x)
  y = Neg(a)
  z = Exp(a)
}
"""
USED_IN_BRANCH = """
g (float[2] x, bool c) => (float[2] y, float[2] z) {
  a = Relu(x)
  y = Neg(a)
  z = If (c) <
    then_branch = p () => (float[2] t) { t = Exp(a) },
    else_branch = q () => (float[2] e) { e = Abs(x) }
  >
}
"""


def neg_relu(op: Any, x: Any) -> Any:
    return op.Neg(op.Relu(x))


def min_neg(op: Any, x: Any) -> Any:
    return op.Neg(op.Max(x, 0.0))


def neg_matmul(op: Any, x: Any) -> Any:
    return op.Neg(op.MatMul(x, x))


def matmul_neg(op: Any, x: Any) -> Any:
    return op.MatMul(op.Neg(x), x)


def refusals(text: str, *args: Any, **options: Any) -> dict[str, int]:
    watch = Watch()
    model = parse(text)
    before = operators(model)
    assert rewrite(model, [rule(*args, **options)], watch) == 0
    assert operators(model) == before
    return dict(watch.rules["rule"].refused)


class TestExclusive:
    def test_refuses_a_value_used_elsewhere(self) -> None:
        assert refusals(FORKED, neg_relu, min_neg) == {"a value inside the match is used elsewhere": 1}

    def test_refuses_a_graph_output(self) -> None:
        assert refusals(INTERIOR_IS_OUTPUT, neg_relu, min_neg) == {"a value inside the match is a graph output": 1}

    def test_refuses_a_value_used_in_a_branch(self) -> None:
        assert refusals(USED_IN_BRANCH, neg_relu, min_neg) == {"a value inside the match is used elsewhere": 1}

    def test_a_value_that_is_replaced_may_be_used_elsewhere(self) -> None:
        def both(op: Any, x: Any) -> Any:
            relu = op.Relu(x)
            return op.Neg(relu), relu

        def new(op: Any, x: Any) -> Any:
            maximum = op.Max(x, 0.0)
            return op.Neg(maximum), maximum

        model = parse(FORKED)
        assert apply(model, rule(both, new)) == 1
        assert sorted(operators(model)) == ["Exp", "Max", "Neg"]

    def test_all_users_inside_are_fine(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }")

        def diamond(op: Any, x: Any) -> Any:
            relu = op.Relu(x)
            return op.Add(relu, op.Neg(relu))

        assert apply(model, rule(diamond, lambda op, x: op.Mul(x, 0.0))) == 1


class TestDuplicate:
    @pytest.mark.parametrize("text", [FORKED, INTERIOR_IS_OUTPUT, USED_IN_BRANCH])
    def test_leaves_the_forked_value_to_its_other_users(self, text: str) -> None:
        model = parse(text)
        assert apply(model, rule(neg_relu, min_neg, forks="duplicate")) == 1
        assert {"Relu", "Max", "Neg"} <= set(operators(model))

    def test_removes_what_is_not_used_any_more(self) -> None:
        model = parse("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")
        assert apply(model, rule(neg_relu, min_neg, forks="duplicate")) == 1
        assert operators(model) == ["Max", "Neg"]

    def test_duplicates_what_is_expensive_too(self) -> None:
        model = parse(EXPENSIVE)
        assert apply(model, rule(neg_matmul, matmul_neg, forks="duplicate")) == 1
        assert operators(model).count("MatMul") == 2

    @pytest.mark.parametrize("forks", ["duplicate", "cheap"])
    def test_never_draws_random_numbers_twice(self, forks: str) -> None:
        text = """
        g () => (float[2] y, float[2] z) {
          a = RandomNormal<shape = [2]>()
          y = Neg(a)
          z = Exp(a)
        }
        """
        found = refusals(
            text,
            lambda op: op.Neg(op.RandomNormal()),
            lambda op: op.RandomNormal(shape=[2]),
            forks=forks,
        )
        assert found == {"a value inside the match is used elsewhere, and RandomNormal is random": 1}

    @pytest.mark.parametrize("forks", ["duplicate", "cheap"])
    def test_never_calls_a_function_that_draws_random_numbers_twice(self, forks: str) -> None:
        text = """
        g (float[2] x) => (float[2] y, float[2] z) {
          a = local.Noise(x)
          y = Neg(a)
          z = Exp(a)
        }
        <domain: "local", opset_import: ["": 20, "local": 1]> Noise (u) => (v) { v = local.Inner(u) }
        <domain: "local", opset_import: ["": 20]> Inner (u) => (v) { w = RandomNormalLike(u) v = Add(u, w) }
        """

        def neg_noise(op: Any, x: Any) -> Any:
            return op.Neg(op.Noise(x, _domain="local"))

        header = '<ir_version: 10, opset_import: ["": 20, "local": 1]>'
        watch, model = Watch(), parse(text, header)
        assert rewrite(model, [rule(neg_noise, lambda op, x: op.Neg(x), forks=forks)], watch) == 0
        assert dict(watch.rules["rule"].refused) == {
            "a value inside the match is used elsewhere, and Noise is random": 1
        }

    def test_dropout_is_random_in_training_only(self) -> None:
        text = """
        g (float[2] x, float r, bool t) => (float[2] y, float[2] z) {{
          a = Dropout({})
          y = Neg(a)
          z = Exp(a)
        }}
        """

        def neg_dropout(op: Any, x: Any) -> Any:
            return op.Neg(op.Dropout(x, _allow_other_inputs=True))

        inference = parse(text.format("x"))
        assert apply(inference, rule(neg_dropout, lambda op, x: op.Neg(x), forks="duplicate")) == 1
        assert refusals(text.format("x, r, t"), neg_dropout, lambda op, x: op.Neg(x), forks="duplicate") == {
            "a value inside the match is used elsewhere, and Dropout is random": 1
        }


class TestCheap:
    def test_duplicates_what_is_cheap(self) -> None:
        model = parse(FORKED)
        assert apply(model, rule(neg_relu, min_neg, forks="cheap")) == 1
        assert sorted(operators(model)) == ["Exp", "Max", "Neg", "Relu"]

    def test_refuses_what_is_expensive(self) -> None:
        assert refusals(EXPENSIVE, neg_matmul, matmul_neg, forks="cheap") == {
            "a value inside the match is used elsewhere, and MatMul is not cheap": 1
        }

    def test_refuses_what_something_expensive_is_needed_for(self) -> None:
        """The forked value is cheap itself, but to keep it means to keep the product that it is made from."""
        text = """
        g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
          m = MatMul(x, x)
          a = Relu(m)
          y = Neg(a)
          z = Exp(a)
        }
        """
        deep = (lambda op, x: op.Neg(op.Relu(op.MatMul(x, x))), lambda op, x: op.Neg(op.Relu(op.MatMul(x, x))))
        assert refusals(text, *deep, forks="cheap") == {
            "a value inside the match is used elsewhere, and MatMul is not cheap": 1
        }

    def test_what_comes_after_the_fork_may_be_expensive(self) -> None:
        text = """
        g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
          a = Relu(x)
          y = MatMul(a, x)
          z = Exp(a)
        }
        """
        model = parse(text)
        assert (
            apply(
                model, rule(lambda op, x: op.MatMul(op.Relu(x), x), lambda op, x: op.Gemm(op.Relu(x), x), forks="cheap")
            )
            == 1
        )
        assert sorted(operators(model)) == ["Exp", "Gemm", "Relu", "Relu"]

    def test_operators_of_other_domains_count_as_expensive(self) -> None:
        header = '<ir_version: 10, opset_import: ["": 20, "mine": 1]>\n'
        model = parse("g (float[2] x) => (float[2] y, float[2] z) { a = mine.F(x) y = Neg(a) z = Exp(a) }", header)
        watch = Watch()
        cheap = rule(lambda op, x: op.Neg(op.F(x, _domain="mine")), lambda op, x: op.Neg(x), forks="cheap")
        assert rewrite(model, [cheap], watch) == 0
        assert "F is not cheap" in next(iter(watch.rules["rule"].refused))


def test_a_fork_replaced_by_the_rule_does_not_keep_its_inputs() -> None:
    """An output of the pattern is new after the rewrite: what uses it inside does not need the old one."""
    text = """
    g (float[2, 2] x) => (float[2, 2] m, float[2, 2] y, float[2, 2] z) {
      m = MatMul(x, x)
      a = Relu(m)
      y = Neg(a)
      z = Exp(a)
    }
    """

    def outputs(op: Any, x: Any) -> Any:
        product = op.MatMul(x, x)
        return product, op.Neg(op.Relu(product))

    def new(op: Any, x: Any) -> Any:
        product = op.Gemm(x, x)
        return product, op.Neg(op.Max(product, 0.0))

    model = parse(text)
    assert apply(model, rule(outputs, new, forks="cheap")) == 1
    assert_valid(model)
    assert sorted(operators(model)) == ["Exp", "Gemm", "Max", "Neg", "Relu"]
