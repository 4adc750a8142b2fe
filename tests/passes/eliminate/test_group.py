"""All rules of the group in one run: they end, agree with each other, and keep what the model computes."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.core.base import Context
from onnx_passes.core.registry import REGISTRY
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule
from tests.passes.eliminate.tools import feeds_of, operators
from tests.passes.tools import assert_equal_results, check, model_of, run


def _rules() -> list[Rule]:
    members = [REGISTRY.load(entry)() for entry in REGISTRY.find("eliminate").entries]
    return [rule for member in members if isinstance(member, RewriteRuleSetPass) for rule in member.rules()]


MODELS = {
    "chain": """g (float[2,1,3] x) => (float[2,3] y)
        <int64[1] one = {1}, int64[3] s = {2, 1, 3}, int64[2] t = {0, 3}, float u = {1.0}, float z = {-0.0}> {
        a = Identity (x) b = Cast <to = 1> (a) c = Transpose (b) d = Transpose (c) e = Reshape (d, s)
        f = Mul (e, u) g = Add (z, f) h = Neg (g) i = Neg (h) j = Relu (i) k = Relu (j)
        l = Squeeze (k, one) m = Unsqueeze (l, one) n = Squeeze (m, one) o = Reshape (n, t) p = Concat <axis = 0> (o)
        q = Dropout (p) y = Identity (q)
    }""",
    "logic": """g (bool[3,4] x, bool[4] y) => (bool[3,4] z) <bool on = {1}, bool off = {0}> {
        a = And (x, on) b = Or (a, off) c = Or (b, y) d = And (b, c) e = Not (d) f = Not (e)
        g = Xor (f, y) h = Xor (y, y) i = Or (g, h) j = And (i, i) z = Identity (j)
    }""",
    "integers": """g (int32[N,3] x, int32[3] y) => (int32[N,3] z, bool[N,3] w)
        <int32 zero = {0}, int32 low = {-4}, int32 high = {9}, int64[2] s = {-1, 3}> {
        a = Sub (x, x) b = Mul (a, zero) c = Add (x, b) d = Reshape (c, s) e = Clip (d, low, high) f = Clip (e, zero)
        g = Max (f, y) h = Min (f, g) i = Where (w, h, h) j = Less (i, y) w = Not (j) z = Identity (i)
    }""".replace("i = Where (w, h, h)", "k = Less (h, y) i = Where (k, h, h)"),
    "movement": """g (float[4,6] x) => (float[4,2] y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[1] end = {9223372036854775807},
         int64[1] one = {1}, int64[4] none = {0, 0, 0, 0}, int64[2] shape = {4, 4}> {
        a = Slice (x, zero, end, one) b = Slice (a, one, end, one) c = Slice (b, zero, four, one) d = Pad (c, none)
        e = Expand (d, shape) f = Slice (e, two, end, one) g = Transpose <perm = [0, 1]> (f)
        h = ReduceMax <noop_with_empty_axes = 1> (g) i = Flatten (h) y = Identity (i)
    }""",
}


@pytest.mark.parametrize("name", MODELS)
def test_rules_end_together_in_any_order(name: str):
    rules = _rules()
    sizes: set[int] = set()
    for seed in range(3):
        model = model_of(MODELS[name])
        ShapeInference().run(model, Context())
        feeds = feeds_of(model)
        expected = run(model, feeds)
        order = np.random.default_rng(seed).permutation(len(rules)) if seed else range(len(rules))
        assert rewrite(model, [rules[i] for i in order]) > 0
        check(model)
        assert_equal_results(model, expected, feeds)
        assert rewrite(model, [rules[i] for i in order]) == 0
        sizes.add(len(model.graph))
    assert len(sizes) == 1


def test_chain_of_nothing_becomes_what_it_does():
    model = model_of(MODELS["chain"])
    ShapeInference().run(model, Context())
    rewrite(model, _rules())
    assert operators(model.graph) == ["Relu", "Squeeze"]


def test_group_has_the_names_that_users_know():
    names = {entry.name for entry in REGISTRY.find("eliminate").entries}
    assert names >= {"eliminate-identity", "eliminate-where", "eliminate-common-subexpression"}


def test_default_group_needs_no_fast_math():
    for entry in REGISTRY.find("eliminate").entries:
        cls = REGISTRY.load(entry)
        assert not cls.fast_math
        assert [claim.kind for claim in cls.claims] == ["equality"]
