"""What proofs list, labels of all outputs, and examples as they are told."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph.copy import copy_model
from onnx_passes.proofs.decide import moved
from onnx_passes.proofs.equal import same_labels, told
from onnx_passes.proofs.proof import Assumption, Proof
from onnx_passes.proofs.runs import run
from tests.proofs.models import pair


def test_a_proof_lists_each_assumption_once_among_its_facts():
    known, other = Assumption("nothing overflows"), Assumption("sums are exact", "equal-in-reals")
    found = Proof("proved", "congruence", ("a fact", "nothing overflows"), assumptions=(known, other))
    assert found.facts == ("a fact", "nothing overflows", "sums are exact")
    assert found.level == "tested"
    assert not found.keeps_bits
    assert found.preserves == ("reals",)
    assert Proof("proved", "congruence", assumptions=(other,)).level == "equal-in-reals"
    assert Proof("proved", "congruence", assumptions=(known,)).preserves == ("bits", "levels", "reals")
    assert Proof("proved-here", "congruence").known == "proved-here"
    assert Proof("proved", "congruence", is_of_rule=True).known == "proved"
    assert Proof("proved", "congruence", assumptions=(known,), is_of_rule=True).known == "tested"


LABELLED = "float[2,3] x, float[2,3] u => float[2,3] y, float[2,3] z"


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        ("y = Add(u, x) t = Transpose(x) z = Transpose(t)", True),
        ("y = Add(u, x) z = Neg(x)", False),
        ("y = Add(u, u) z = Identity(x)", False),
        ("z = Identity(x) y = Sub(x, u)", False),
    ],
)
def test_labels_of_all_outputs_count(after: str, is_same: bool):
    models = pair(LABELLED, "y = Add(x, u) z = Identity(x)", after)
    assert same_labels(*models, [0, 1]) is is_same
    given = {"x": np.float32([[1, 2, 3], [4, 5, 6]]), "u": np.float32([[7, 1, 1], [2, 2, 9]])}
    results = [run(each, given) for each in models]
    assert all(np.array_equal(a, b) for a, b in zip(results[0] or [], results[1] or [], strict=True)) is is_same


def test_labels_of_fewer_outputs_or_paired_inputs_are_others():
    old, _ = pair(LABELLED, "y = Add(x, u) z = Identity(x)", "y = Add(x, u) z = Identity(x)")
    fewer = copy_model(old)
    fewer.graph.outputs.pop()
    assert not same_labels(old, fewer, [0, 1])
    assert not same_labels(fewer, old, [0, 1])
    assert same_labels(old, old, [0, 1])
    assert not same_labels(old, old, [1, 0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_next_number_is_that_of_numpy(dtype: type):
    numbers = np.array([1.0, 0.5, 3.25, 1e-4], dtype)
    assert np.array_equal(moved(numbers, 1), np.nextafter(numbers, np.array(np.inf, dtype)))
    assert np.array_equal(moved(numbers, -1), np.nextafter(numbers, np.array(-np.inf, dtype)))
    assert np.array_equal(moved(-numbers, 1), np.nextafter(-numbers, np.array(-np.inf, dtype)))


def test_examples_are_told_shortly():
    told_of = told({"x": np.arange(5), "u": np.array([2])})
    assert told_of == "different results for x = [0, 1, 2, 3, …], u = 2"
    assert told({"x": np.arange(4)}) == "different results for x = [0, 1, 2, 3]"
    assert told({}) == "different results"
