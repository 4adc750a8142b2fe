"""What a proof rests on, which inputs it pairs, and what checks of it compare and try."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import UnsupportedError
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.model_certificate import certify, differences
from onnx_passes.proofs.proof import Proof
from onnx_passes.proofs.real_numbers import same_in_fields
from onnx_passes.proofs.rule_certificate import RuleCertificate
from onnx_passes.proofs.runs import WholeRuns
from onnx_passes.proofs.samples import paired_inputs, variables
from tests.proofs.models import model, pair

TWO = "float[3] x, float[3] u => float[3] y"


def turned(body: str) -> ir.Model:
    return model(f"g (float[3] u, float[3] x) => (float[3] y) {{ {body} }}")


def test_inputs_are_paired_by_their_names_and_else_by_their_places():
    old, new = model(f"g ({TWO.split(' =>')[0]}) => (float[3] y) {{ y = Sub(x, u) }}"), turned("y = Sub(x, u)")
    assert paired_inputs(old, new) == [1, 0]
    renamed = model("g (float[3] a, float[3] b) => (float[3] y) { y = Sub(a, b) }")
    assert paired_inputs(old, renamed) == [0, 1]
    fewer = model("g (float[3] a) => (float[3] y) { y = Neg(a) }")
    with pytest.raises(UnsupportedError, match="different inputs"):
        paired_inputs(old, fewer)


def test_inputs_of_unknown_type_or_shape_are_no_variables():
    for missing in ("type", "shape"):
        given = model("g (float[3] x) => (float[3] y) { y = Neg(x) }")
        setattr(given.graph.inputs[0], missing, None)
        with pytest.raises(UnsupportedError, match="is not known"):
            variables(Terms(), given)


@pytest.mark.parametrize(
    ("before", "after"),
    [("a = Div(x, u) y = Mul(a, u)", "y = Identity(x)"), ("a = Div(x, u) y = Neg(a)", "n = Neg(x) y = Div(n, u)")],
)
def test_what_real_numbers_take_for_granted_is_told(before: str, after: str):
    same, assumed = same_in_fields(*pair(TWO, before, after), [0, 1], fold=True)
    assert same
    assert assumed
    found = prove_equal(*pair(TWO, before, after), allow={"reassoc", "nnan", "ninf", "nsz", "contract"})
    if isinstance(found, Proof) and found.level == "equal-in-reals":
        assert {each.text for each in found.assumptions} >= set(assumed)


@pytest.mark.parametrize(("key", "other"), [("level", "proved"), ("facts", ["nothing is assumed"])])
def test_a_certificate_that_says_more_than_a_new_one_differs(key: str, other: object):
    made = certify(*pair(TWO, "n = Neg(x) y = Sub(u, n)", "y = Add(x, u)"))
    assert differences(made.to_json(), made) == []
    data = made.to_json()
    data[key] = other if data[key] != other else "tested"
    (told,) = differences(data, made)
    assert f"'{key}'" in told


@pytest.mark.parametrize(
    ("method", "bits_alone"), [("solver (floats)", True), ("exhaustive", True), ("finite fields", False)]
)
def test_floats_that_were_compared_say_nothing_of_real_numbers(method: str, bits_alone: bool):
    found = RuleCertificate("pass/rule", "x = x", "0", method=method).proof()
    assert found is not None
    assert ("reals" not in found.preserves) == bits_alone


def test_one_special_element_among_ordinary_ones_is_tried():
    """All elements are NaN, or none: then both are the same."""
    count = "n = IsNaN(x) c = Cast <to = 1> (n) s = ReduceSum <keepdims = 0> (c)"
    one = "o = Constant <value_float = 1.0> () h = Equal(s, o) z = Constant <value_float = 0.0> () w = Where(h, z, o)"
    before, after = f"{count} {one} y = Add(x, x)", f"{count} {one} a = Add(x, x) y = Mul(a, w)"
    old, new = pair("float[3] x => float[3] y", before, after)
    found = WholeRuns(old, new, frozenset({"nnan"}), (), 20.0).search()
    assert found is not None
    assert np.isnan(found.feeds["x"]).sum() == 1
    assert WholeRuns(old, old, frozenset(), (), 20.0).search() is None
