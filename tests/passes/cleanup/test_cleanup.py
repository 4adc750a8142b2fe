from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.graph.load import load
from onnx_passes.passes.check.checker import Checker
from onnx_passes.passes.cleanup.cleanup import Cleanup
from tests.helpers.random_models import random_inputs, random_model, shuffle_names_and_order
from tests.helpers.small_models import files
from tests.passes.tools import apply, assert_equal_results, check, model_of, operators, run

UNTIDY = """g (float[2] x, float[2] free) => (float[2] y) <float[2] w = {1, 2}, float[2] free = {9, 9}> {
  [n] c = Constant <value = float[2] {1, 2}> ()
  [n] a = Mul (x, w)
  [n] dead = local.f (a)
  [n] b = Mul (a, c)
  y = Add (b, free)
}
<domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = Abs (a) }"""


def test_tidies_everything_but_the_interface():
    model = model_of(UNTIDY, domains='"local" : 1')
    model.graph.extend(list(reversed(model.graph)))
    assert apply(Cleanup(), model)
    assert operators(model.graph) == ["Mul", "Mul", "Add"]
    assert [node.name for node in model.graph] == ["n", "n_1", "Add"]
    assert list(model.graph.initializers) == ["w", "free"]
    assert [v.name for v in model.graph.inputs] == ["x", "free"]
    assert not model.functions
    assert dict(model.opset_imports) == {"": 18}
    check(model)
    feeds = {"x": np.array([3, 4], np.float32)}
    assert_equal_results(model, [np.array([12, 25], np.float32)], feeds)
    assert_equal_results(model, [np.array([3, 16], np.float32)], {**feeds, "free": np.zeros(2, np.float32)})


def test_a_tidy_model_stays():
    model = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { [n] y = Mul (x, w) }")
    assert not apply(Cleanup(), model)


def test_every_member_is_in_the_record():
    model = model_of(UNTIDY, domains='"local" : 1')
    record = Manager().run(plan("cleanup"), model).record
    assert [step.name for step in record.leaves()] == [
        "remove-unused-nodes",
        "remove-unused-functions",
        "remove-unused-opsets",
        "topological-sort",
        "lift-constants",
        "unique-names",
        "deduplicate-initializers",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_random_models_compute_the_same(seed: int):
    model = random_model(seed, nodes=30, dead=True)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    shuffled = shuffle_names_and_order(model, seed, topological=False)
    apply(Cleanup(), shuffled)
    check(shuffled)
    assert_equal_results(shuffled, expected, feeds)


def is_valid(model: ir.Model) -> bool:
    try:
        Checker()(model)
    except PassFailedError:
        return False
    return True


def small_feeds(model: ir.Model) -> dict[str, np.ndarray] | None:
    """Return inputs for a model of standard operators that runs in no time, else nothing."""
    inputs = [v for v in model.graph.inputs if not v.is_initializer()]
    standard = all(node.domain in ("", "com.microsoft") for node in model.graph.all_nodes())
    if not standard or sum(1 for _ in model.graph.all_nodes()) > 600:
        return None
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {}
    for value in inputs:
        if value.shape is None or value.dtype is None or value.dtype == ir.DataType.STRING:
            return None
        shape = [dim if isinstance(dim, int) and dim > 0 else 2 for dim in value.shape]
        feeds[value.name or ""] = rng.random(shape).astype(value.dtype.numpy())
    return feeds if sum(array.size for array in feeds.values()) < 50_000 else None


def try_to_run(model: ir.Model) -> tuple[dict[str, np.ndarray], list[np.ndarray]] | None:
    feeds = small_feeds(model)
    try:
        return None if feeds is None else (feeds, run(model, feeds))
    except Exception:  # noqa: BLE001 - some models take only inputs of a certain kind
        return None


@pytest.mark.parametrize("path", files(every=5), indirect=True)
def test_real_models_stay_valid_and_compute_the_same(path: Path):
    model = load(path)
    valid, ran = is_valid(model), try_to_run(model)
    identity = Fingerprinter()
    for text in ("cleanup", "shape-inference"):
        before = identity.full(model)
        modified = Manager().run(plan(text), model).record.modified
        after = identity.full(model)
        assert modified == (before != after), text
        assert not Manager().run(plan(text), model).record.modified, text
        assert identity.full(model) == after, text
    assert is_valid(model) or not valid
    reloaded = load(ir.to_proto(model))
    assert not Manager().run(plan("cleanup"), reloaded).record.modified
    if ran is not None:
        feeds, expected = ran
        assert_equal_results(model, expected, feeds)
