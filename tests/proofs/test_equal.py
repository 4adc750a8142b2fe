"""Proofs that two models are the same, and examples where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.proofs.equal import labels, prove_equal
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.runs import run
from onnx_passes.proofs.samples import Domain
from tests.proofs.models import pair

FLOATS = "float[2,3] x, float[2,3] y, float[2,3] z => float[N,M] r"
INTEGERS = "int32[4] x, int32[4] y, int32[4] z => int32[N] r"


def test_congruence_sees_through_movement_and_order():
    before, after = pair(
        FLOATS,
        "t = Transpose(x) u = Transpose(y) v = Add(t, u) r = Relu(v)",
        "v = Add(y, x) t = Relu(v) r = Transpose(t)",
    )
    assert prove_equal(before, after, solver=False) == Proof("proved-here", "congruence")


def test_an_unknown_operator_is_a_function_of_its_inputs_and_attributes():
    interface = "float[2,3] x => float[3,2] r"
    same = pair(
        interface,
        "c = some.where.Foo <a = 3> (x) r = Transpose(c)",
        "c = some.where.Foo <a = 3> (x) d = Transpose(c) e = Transpose(d) r = Transpose(e)",
    )
    for each in same:
        each.graph[0].outputs[0].shape, each.graph[0].outputs[0].dtype = (
            each.graph.inputs[0].shape,
            each.graph.inputs[0].dtype,
        )
    assert isinstance(prove_equal(*same), Proof)


def test_integers_are_a_ring():
    before, after = pair(INTEGERS, "a = Add(x, z) r = Mul(a, y)", "a = Mul(x, y) b = Mul(z, y) r = Add(a, b)")
    found = prove_equal(before, after, solver=False)
    assert isinstance(found, Proof)
    assert found.level == "proved-here"


def test_an_overflow_is_found_and_a_domain_excludes_it():
    interface = "int32[4] x, int32[4] y, int32[4] z => bool[N] r"
    before, after = pair(interface, "a = Add(x, z) b = Add(y, z) r = Greater(a, b)", "r = Greater(x, y)")
    found = prove_equal(before, after)
    assert isinstance(found, Unproved)
    assert found.refuted
    small = Domain(-(2**29), 2**29)
    pytest.importorskip("z3")
    assert isinstance(prove_equal(before, after, domains={"x": small, "y": small, "z": small}), Proof)


def test_the_sign_of_zero_counts_and_is_named_as_the_excuse():
    before, after = pair(FLOATS, "n = Sub(x, y) r = Neg(n)", "r = Sub(y, x)")
    found = prove_equal(before, after, solver=False)
    assert isinstance(found, Unproved)
    assert found.refuted
    assert found.flags == ("nsz",)
    assert np.array_equal(found.example["x"].reshape(-1)[:1], found.example["y"].reshape(-1)[:1])


def test_a_lost_output_shape_is_a_refutation():
    before, after = pair("float[1] x, float[2,2] y => float[N,M] r", "a = Add(x, y) r = Sub(a, y)", "r = Identity(x)")
    found = prove_equal(before, after)
    assert isinstance(found, Unproved)
    assert found.refuted
    assert "[1]" in found.reason


def test_labels_agree_for_equal_models_only():
    before, after = pair(FLOATS, "t = Transpose(x) r = Transpose(t)", "r = Identity(x)")
    assert np.array_equal(labels(before)[0], labels(after)[0])
    assert not np.array_equal(labels(before, seed=1)[0], labels(after)[0])
    before, after = pair(FLOATS, "r = Sub(x, y)", "r = Sub(y, x)")
    assert not (labels(before)[0] == labels(after)[0]).any()


def test_pooling_passes_over_nan_where_reductions_do_not() -> None:
    pooled = "y = MaxPool <kernel_shape = [3]> (x)"
    reduced = "axes = Constant <value_ints = [2]> () y = ReduceMax (x, axes)"
    before, after = pair("float[1, 1, 3] x => float[1, 1, 1] y", pooled, reduced)
    assert not isinstance(prove_equal(before, after, solver=False), Proof)
    found = prove_equal(before, after, solver=False, allow=("nnan", "ninf", "nsz"))
    assert isinstance(found, Proof)


_ALONE = "i = Constant <value_ints = [1]> ()"


@pytest.mark.parametrize("name", ["AveragePool <kernel_shape = [1, 1]>", "GlobalAveragePool"])
def test_an_average_of_one_element_loses_the_sign_of_zero(name: str):
    # ONNX Runtime adds to a zero, other than in ReduceMean.
    interface = "float[1,2,1,1] x => float[1,2,1,1] y"
    assert not keeps_bits(interface, f"y = {name} (x)", "y = Identity(x)")
    assert keeps_bits(interface, f"y = {name} (x)", "z = Constant <value_float = 0.0> () y = Add(x, z)")
    assert keeps_bits("float[2,1] x => float[2,1] y", f"{_ALONE} y = ReduceMean(x, i)", "y = Identity(x)")


@pytest.mark.parametrize(("name", "alone"), [("ReduceL1", "Abs(x)"), ("ReduceSumSquare", "Mul(x, x)")])
def test_a_norm_of_one_integer_saturates(name: str, alone: str):
    for dtype, is_exact in (("int32", False), ("float", True)):
        interface = f"{dtype}[2,1] x => {dtype}[2,1] y"
        assert keeps_bits(interface, f"{_ALONE} y = {name}(x, i)", f"y = {alone}") is is_exact


def test_windows_of_other_attributes_may_treat_nan_in_another_way():
    # Of ONNX Runtime's kernels, those for dilated windows return a NaN that comes first, and others pass over it.
    before = "y = MaxPool <kernel_shape = [2], dilations = [2]> (x)"
    after = "s = Constant <value_ints = [0]> () e = Constant <value_ints = [9]> () a = Constant <value_ints = [2]> () "
    after += "t = Constant <value_ints = [2]> () z = Slice(x, s, e, a, t) y = MaxPool <kernel_shape = [2]> (z)"
    interface = "float[1,1,3] x => float[1,1,1] y"
    models = pair(interface, before, after)
    feeds = {"x": np.array([[[np.nan, 0, 1]]], np.float32)}
    results = [run(model, feeds) for model in models]
    assert not np.array_equal(results[0], results[1], equal_nan=True)
    assert not keeps_bits(interface, before, after)
    assert keeps_bits(interface, before, before)


def keeps_bits(interface: str, before: str, after: str) -> bool:
    found = prove_equal(*pair(interface, before, after), solver=False)
    return isinstance(found, Proof) and found.level == "proved-here"
