"""Our driver beside onnxscript's own, on generated models: both give what the original gave, ours always valid."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import pattern

from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.foreign import from_onnxscript
from onnx_passes.rewrite.index import RuleIndex
from tests.rewrite.generators import exact_feeds, exact_model, exact_rules, foreign_rules, free_rules
from tests.rewrite.support import Watch, assert_valid, run

MODELS = 320
FREE_MODELS = 150
ROUNDS = 80


def stock_fixpoint(model: ir.Model, rules: pattern.RewriteRuleSet) -> None:
    """Run the other driver until it finds nothing more; it leaves sorting to others."""
    for _ in range(ROUNDS):
        if rules.apply_to_model(model) == 0:
            break
        model.graph.sort()
    else:
        raise AssertionError("the other driver does not end")


def test_both_drivers_agree_with_the_original_to_the_last_bit() -> None:
    ours, theirs = RuleIndex(exact_rules()), pattern.RewriteRuleSet(foreign_rules())
    compared = changed = 0
    applied: Counter[str] = Counter()
    for seed in range(MODELS):
        model = exact_model(seed)
        text = ir.to_proto(model).SerializeToString(deterministic=True)
        feeds = exact_feeds(seed)
        expected = run(model, feeds)

        mine, watch = exact_model(seed), Watch()
        assert ir.to_proto(mine).SerializeToString(deterministic=True) == text
        changed += rewrite(mine, ours, watch) > 0
        applied.update({name: record.applied for name, record in watch.rules.items()})
        assert_valid(mine)

        other = exact_model(seed)
        stock_fixpoint(other, theirs)

        for name, found in (("ours", run(mine, feeds)), ("stock", run(other, feeds))):
            assert list(found) == list(expected), (seed, name)
            for output, array in expected.items():
                assert np.array_equal(array, found[output]), (seed, name, output)
                assert array.dtype == found[output].dtype
        compared += 1
    assert compared >= 300
    assert changed >= 0.6 * compared
    assert all(applied.values()), applied


def test_any_order_of_rules_and_any_policy_on_forks_keep_every_value() -> None:
    """What the other driver cannot do: rules that return existing values, merge nodes, or match in any order."""
    applied: Counter[str] = Counter()
    for seed in range(FREE_MODELS):
        rng = np.random.default_rng(seed)
        rules = [from_onnxscript(rule, commute=bool(rng.integers(2))) for rule in foreign_rules()] + free_rules()
        for rule in rules:
            rule.forks = ("exclusive", "duplicate", "cheap")[rng.integers(3)]
        rules = [rules[i] for i in rng.permutation(len(rules))]
        model, feeds, watch = exact_model(seed, nodes=30), exact_feeds(seed), Watch()
        expected = run(model, feeds)
        rewrite(model, rules, watch)
        applied.update({name: record.applied for name, record in watch.rules.items()})
        assert_valid(model)
        found = run(model, feeds)
        assert list(found) == list(expected), seed
        assert all(np.array_equal(array, found[name]) for name, array in expected.items()), seed
        assert rewrite(model, rules) == 0, seed
    assert applied.total() > 5 * FREE_MODELS
    assert all(applied.values()), applied
