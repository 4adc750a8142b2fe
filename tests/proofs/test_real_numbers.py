"""Proofs in real numbers hold for every element and every output, and their bounds hold for what engines compute."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.numbers.algebra import UnsupportedError
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.real_numbers import rounding, same_in_fields
from onnx_passes.proofs.samples import Domain, paired_inputs, variables
from tests.proofs.models import model, pair

TWO = "float[2] x => float[2] y, float[2] z"


def same(interface: str, before: str, after: str) -> bool:
    old, new = pair(interface, before, after)
    return same_in_fields(old, new, range(len(old.graph.inputs)), fold=True)[0]


ROOTS = " ".join(
    f"c{i} = Constant <value_float = {i}.0> () a{i} = Add(x, c{i}) r{i} = Sqrt(a{i})" for i in range(1, 10)
)
ROOTS += f" s = Sum({', '.join(f'r{i}' for i in range(1, 10))})"


@pytest.mark.parametrize("wrong", ["z = Neg(s)", "z = Mul(s, d)", "z = Abs(d)"])
def test_roots_that_a_field_lacks_are_not_settled_by_other_outputs(wrong: str):
    """Hardly a point has all of nine roots."""
    interface, two = "float[1] x => float[1] y, float[1] z", "d = Constant <value_float = 2.0> ()"
    before = f"y = Add(x, x) {ROOTS} z = Identity(s)"
    assert not same(interface, before, f"{two} y = Mul(x, d) {ROOTS} {wrong}")


@pytest.mark.parametrize(
    "before",
    ["a = Mul(x, c) y = Div(a, c)", "a = Div(x, c) y = Mul(a, c)", "a = Add(x, x) y = Div(a, c)"],
)
def test_integers_are_no_real_numbers(before: str):
    """They overflow, and lose what is behind the point."""
    two = "c = Constant <value = int8 {2}> ()"
    assert not same("int8[2] x => int8[2] y", f"{two} {before}", "y = Identity(x)")


def test_one_element_that_differs_is_enough():
    scaled = "c = Constant <value = float[2] {{1, {0}}}> () y = Mul(x, c) z = Neg(x)"
    assert same(TWO, scaled.format(2), scaled.format(2))
    assert not same(TWO, scaled.format(2), scaled.format(3))


@pytest.mark.parametrize("kind", ["int64", "int8", "bool"])
def test_what_is_cast_is_not_compared_as_a_real_number(kind: str):
    number = {"int64": 7, "int8": 3, "bool": 9}[kind]
    before = f"y = Cast <to = {number}> (x)"
    after = f"h = Constant <value_float = 0.5> () a = Add(x, h) y = Cast <to = {number}> (a)"
    assert not same(f"float[2] x => {kind}[2] y", before, after)
    assert same(f"float[2] x => {kind}[2] y", before, before)


@pytest.mark.parametrize(
    ("one", "other"), [("float[2]", "double[2]"), ("float[2]", "float[3]"), ("int8[2]", "uint8[2]")]
)
def test_inputs_of_another_type_or_shape_are_not_the_same(one: str, other: str):
    old, new = (model(f"g ({kind} x) => ({kind} y) {{ y = Neg(x) }}") for kind in (one, other))
    assert paired_inputs(old, old) == [0]
    with pytest.raises(UnsupportedError, match="another type or shape"):
        paired_inputs(old, new)


def bound(before: str, after: str, *, exactly: bool, domain: Domain | None = None, outputs: str = "float[1] y"):
    old, new = pair(f"float[1] x => {outputs}", before, after)
    terms = Terms()
    made = variables(terms, old)
    found = [Evaluation(each, terms, fold=False).outputs(made) for each in (old, new)]
    pairs = [
        (int(a), int(b))
        for x, y in zip(*found, strict=True)
        for a, b in zip(x.elements(terms).reshape(-1), y.elements(terms).reshape(-1), strict=True)
    ]
    domains = {} if domain is None else {"x": domain}
    return rounding(terms, pairs, domains, exactly=exactly, seconds=20.0)[0]


def apart(before: str, after: str, domain: Domain, outputs: str = "float[1] y") -> float:
    """Return how far results are apart in ONNX Runtime, at many inputs of a domain."""
    models = pair(f"float[1] x => {outputs}", before, after)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [onnxruntime.InferenceSession(ir.to_proto(each).SerializeToString(), options) for each in models]
    worst = 0.0
    for x in np.linspace(domain.low, domain.high, 201, dtype=np.float32):
        a, b = (session.run(None, {"x": x.reshape(1)}) for session in sessions)
        worst = max(worst, *(float(np.abs(p.astype(np.float64) - q).max()) for p, q in zip(a, b, strict=True)))
    return worst


THIRD = "t = Constant <value_float = 0.33333334> ()"
LONG = " ".join(f"a{i + 1} = Add(a{i}, t)" for i in range(12))
PLAIN = "n = Constant <value_float = 4.0> () a = Add(x, n) y = Identity(a)"
CHAIN = f"{THIRD} a0 = Identity(x) {LONG} y = Identity(a12)"


@pytest.mark.parametrize("turned", [False, True])
def test_a_bound_counts_the_rounding_of_either_side(turned: bool):
    texts = (CHAIN, PLAIN) if turned else (PLAIN, CHAIN)
    unit = Domain(-1.0, 1.0)
    found, seen = bound(*texts, exactly=True), apart(*texts, unit)
    assert found is not None
    # A dozen sums of numbers beyond 1, each rounded by up to half a unit in the last place.
    assert found >= max(seen, 12 * 2.0**-24)
    assert found < 1e-4


def test_a_bound_counts_constants_that_are_not_the_same():
    before = "c = Constant <value_float = 0.3> () y = Mul(x, c)"
    after = "c = Constant <value_float = 0.30002> () y = Mul(x, c)"
    found = bound(before, after, exactly=False)
    assert found is None or found >= apart(before, after, Domain(-1.0, 1.0))
    close = before.replace("0.3>", "0.3000001>")
    found = bound(before, close, exactly=False)
    assert found is not None
    assert found >= apart(before, close, Domain(-1.0, 1.0)) > 5e-8


def test_inputs_of_unknown_size_are_taken_for_one_and_others_for_what_they_are():
    before, after = "a = Mul(x, x) y = Mul(a, x)", "a = Mul(x, x) y = Mul(x, a)"
    usual, wide = bound(before, after, exactly=True), bound(before, after, exactly=True, domain=Domain(-100.0, 100.0))
    assert usual is not None
    assert wide is not None
    # Two products of numbers up to 1, on either side, each rounded by 2⁻²⁴ at most.
    assert 2 * 2.0**-24 <= usual <= 16 * 2.0**-24
    assert wide >= 1e6 * 2 * 2.0**-24


def test_what_rounding_leaves_nothing_of_has_no_bound():
    large = "c = Constant <value_float = 1e8> () a = Add(x, c) y = Sub(a, c)"
    assert apart(large, "y = Identity(x)", Domain(-1.0, 1.0)) > 0.1
    assert bound(large, "y = Identity(x)", exactly=True) is None


def test_the_worst_of_all_outputs_counts_wherever_it_stands():
    outputs = "float[1] y, float[1] z"
    exact = "{0} = Identity(x)"
    rough = CHAIN.replace("y =", "{0} =")
    plain = PLAIN.replace("y =", "{0} =")
    for first, second in (("y", "z"), ("z", "y")):
        before = f"{rough.format(first)} {exact.format(second)}"
        after = f"{plain.format(first)} {exact.format(second)}"
        found = bound(before, after, exactly=True, outputs=outputs)
        assert found is not None
        assert found >= 12 * 2.0**-24
