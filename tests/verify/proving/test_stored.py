"""Constants that are stored in the place of values are compared with these, bit by bit."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import api
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.constants import StoredConstants
from onnx_passes.verify.proving.facts import Facts
from tests.verify.proving.windows import HEAD

CONSTANTS = "float[2] c = {2, 0.5}, float one = {1}, int64[2] i = {1, 2}"


def stored(body: str, *arrays: np.ndarray) -> Proof | Unproved:
    """Say what is proved where the last nodes of a text give way to arrays."""
    text = f"{HEAD} g (float[2] x) => (y) <{CONSTANTS}> {{ {body} }}"
    model = api.apply(ir.from_onnx_text(text), "shape-inference", verify=False).model
    nodes = list(model.graph)
    values = [node.outputs[0] for node in nodes[-len(arrays) :]]
    pairs = []
    for value, array in zip(values, arrays, strict=True):
        new = ir.Value(name=f"{value.name}_stored", const_value=ir.tensor(array), shape=ir.Shape(array.shape))
        new.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        model.graph.initializers.add(new)
        pairs.append((value, new))
    step = StepRecord(1, "planted", "planted", "")
    application = Application(1, step, "planted", "", model.graph, nodes[-1], tuple(nodes), (), tuple(pairs), ())
    waiting = StoredConstants(Facts(model))
    found = waiting.add(application)
    if found is None:
        ((number, rule, found),) = waiting.finish()
        assert (number, rule) == (1, "planted")
        assert list(waiting.finish()) == []
    return found


HALVES = np.array([0.5, 2], np.float32)


@pytest.mark.parametrize("body", ["y = Reciprocal(c)", "a = Neg(c) b = Neg(a) y = Reciprocal(b)"])
@pytest.mark.parametrize(
    ("array", "right"),
    [
        (HALVES, True),
        (np.nextafter(HALVES, np.float32(1)), False),
        (-HALVES, False),
        (HALVES[::-1].copy(), False),
        (HALVES.astype(np.float64), False),
        (HALVES.reshape(2, 1), False),
        (HALVES[:1].copy(), False),
        (np.full(2, np.nan, np.float32), False),
    ],
)
def test_only_equal_bits_are_proved(body: str, array: np.ndarray, right: bool):
    assert isinstance(stored(body, array), Proof) == right


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_all_values_of_a_rewrite_count(wrong: int | None):
    arrays = [HALVES.copy(), np.array([-2, -0.5], np.float32)]
    if wrong is not None:
        arrays[wrong][1] += 1
    found = stored("y = Reciprocal(c) n = Neg(c)", *arrays)
    assert isinstance(found, Proof) == (wrong is None)


def test_what_inputs_decide_is_no_constant():
    assert "not computed from constants" in str(stored("y = Mul(x, c)", HALVES))


def test_zeros_of_another_sign_are_other_bits():
    assert not isinstance(stored("a = Sub(c, c) y = Neg(a)", np.zeros(2, np.float32)), Proof)
    assert isinstance(stored("a = Sub(c, c) y = Neg(a)", -np.zeros(2, np.float32)), Proof)


def test_constants_for_constants():
    model = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (y) <{CONSTANTS}> {{ y = Mul(x, c) }}")
    held = model.graph.initializers["c"]
    for array, right in ((np.array([2, 0.5], np.float32), True), (np.array([2, 0.25], np.float32), False)):
        new = ir.Value(name="d", const_value=ir.tensor(array), shape=ir.Shape([2]))
        others = ir.Value(name="e", const_value=ir.tensor(np.array([2, 0.5], np.float32)), shape=ir.Shape([2]))
        step = StepRecord(1, "planted", "planted", "")
        pairs = ((held, others), (held, new))
        application = Application(1, step, "planted", "", model.graph, None, (), (), pairs, ())
        assert isinstance(StoredConstants(Facts(model)).add(application), Proof) == right
