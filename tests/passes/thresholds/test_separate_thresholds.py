"""Thresholds that differ along several axes become thresholds of channels, and count the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.passes.thresholds.separate_thresholds import SeparateThresholds, find_offsets
from tests.passes.quant.tools import reasons
from tests.passes.thresholds.tools import DOMAINS, WEIGHTED, constants_text, grid, make, quantized, results, thresholds
from tests.passes.tools import apply, model_of, operators


def offsets(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


def test_an_embedding_becomes_an_addition_again():
    shared, added = np.array([-5.0, -1.0, 2.0]), offsets((3, 4))
    model = make(f"y = {WEIGHTED} (q, T)", {"T": shared - added[..., None]}, shape="2,3,4", datatype="INT6")
    q = grid(-32, 31, 3, 4)
    expected = np.concatenate([results(model, pair) for pair in q.reshape(-1, 2, 3, 4)])
    assert apply(SeparateThresholds(), model)
    assert operators(model.graph) == ["Add", "MultiThreshold"]
    np.testing.assert_array_equal(np.diff(thresholds(model)), [4, 3])
    np.testing.assert_array_equal(np.concatenate([results(model, pair) for pair in q.reshape(-1, 2, 3, 4)]), expected)


def test_channels_keep_thresholds_of_their_own():
    rows, added = np.sort(offsets((4, 3), 1), axis=1), offsets((3, 4))
    model = make(f"y = {WEIGHTED} (q, T)", {"T": rows - added[..., None]}, shape="2,3,4", datatype="INT6")
    q = np.random.default_rng(2).integers(-32, 32, (2, 3, 4))
    expected = results(model, q)
    assert apply(SeparateThresholds(), model)
    assert operators(model.graph) == ["Add", "MultiThreshold"]
    np.testing.assert_array_equal(results(model, q), expected)


@pytest.mark.parametrize(
    ("shape", "places", "wanted"),
    [
        ("2,3,4", (3, 4), ["Reshape", "MultiThreshold", "Reshape"]),
        ("N,3,4", (3, 4), ["Reshape", "MultiThreshold", "Reshape"]),
        ("2,3,5,4", (3, 1, 4), ["Transpose", "Reshape", "MultiThreshold", "Reshape", "Transpose"]),
        ("N,3,5,4", (5, 1), ["Transpose", "Reshape", "MultiThreshold", "Reshape", "Transpose"]),
        ("1,2,3,5,4", (3, 1, 4), ["Transpose", "Reshape", "MultiThreshold", "Reshape", "Transpose"]),
        ("2,3,5,2,2", (5, 1, 1), ["Transpose", "Reshape", "MultiThreshold", "Reshape", "Transpose"]),
    ],
)
@pytest.mark.parametrize("weights", [None, [2.0, -1.0, 3.0]])
def test_floats_get_one_axis(shape: str, places: tuple[int, ...], wanted: list[str], weights: list[float] | None):
    rows = np.sort(np.random.default_rng(0).normal(size=(*places, 3)), axis=-1)
    held = {"T": rows} if weights is None else {"T": rows, "w": weights}
    model = make(
        f"y = {WEIGHTED} <out_bias: float = -1.0> ({', '.join(('q', *held))})", held, shape=shape, datatype=None
    )
    sizes = [2 if size == "N" else int(size) for size in shape.split(",")]
    q = np.random.default_rng(1).normal(size=sizes)
    expected = results(model, q)
    assert apply(SeparateThresholds(), model)
    assert operators(model.graph) == wanted
    np.testing.assert_array_equal(results(model, q), expected)
    assert not apply(SeparateThresholds(), model)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 12))
def test_what_is_found_counts_the_same(seed: int, positions: int, channels: int, amount: int, most: int):
    """Tried with every integer; thresholds beyond what comes may be anywhere."""
    random = np.random.default_rng(seed)
    shared = np.sort(random.integers(-6, 7, amount))
    rows = (shared - random.integers(-4, 5, (positions * channels, 1))).astype(np.float32)
    low, high = np.full(len(rows), -most), np.full(len(rows), most)
    rows = np.clip(rows, -most, most + 1)
    found = find_offsets(rows, (1, positions, channels), low, high, [2])
    assert found is not None
    x = np.arange(-most, most + 1)[:, None, None, None]
    expected = (x[..., None] >= rows.reshape(1, 1, positions, channels, amount)).sum(-1)
    counted = ((x + found.added)[..., None] >= found.thresholds).sum(-1)
    np.testing.assert_array_equal(counted, expected)


def test_offsets_that_do_not_exist():
    rows = np.array([[0, 1], [0, 2]], np.float32)
    assert find_offsets(rows, (2, 1), np.full(2, -9), np.full(2, 9), []) is None
    assert find_offsets(rows, (2, 1), np.full(2, 1), np.full(2, 9), []) is not None, "nothing below 1 comes"


def test_sums_that_floats_do_not_hold_are_not_made():
    rows = np.array([[0], [9]], np.float32)
    assert find_offsets(rows, (2, 1), np.full(2, -(2**24) + 9), np.full(2, 2**24 - 9), []) is not None
    assert find_offsets(rows, (2, 1), np.full(2, -(2**24) + 1), np.full(2, 2**24 - 1), []) is None


@pytest.mark.parametrize(
    ("shape", "places", "reason"),
    [
        ("2,3,4", (4,), "already per channel"),
        ("2,3,4", (3, 1), "already per channel"),
        ("2,3,4", (), "already per channel"),
        ("N,M,3,4", (3, 4), "several dimensions"),
        ("N,1,4", (3, 4), "may change the shape"),
    ],
)
def test_refuses(shape: str, places: tuple[int, ...], reason: str):
    rows = np.arange(2 * np.prod(places, dtype=int)).reshape(*places, 2)
    result = shape.replace("1,", "3,") if reason == "may change the shape" else shape
    model = make(f"y = {WEIGHTED} (q, T)", {"T": rows}, shape=shape, result=result)
    assert reason in reasons("separate-thresholds", model)


def test_finn_gets_positional_embeddings_as_additions():
    """The embedding is on the grid of what it is added to, as in published transformers."""
    added = offsets((1, 3, 4)) * 0.25
    tail = "s = Mul (q, step) a = Add (s, e) t = Div (a, half)"
    model = quantized(tail, {"step": 0.25, "e": added, "half": 0.5}, shape="1,3,4", datatype="INT6")
    q = grid(-32, 31, 3, 4)[:, None]
    expected = np.concatenate([results(model, one) for one in q])
    result = onnx_passes.apply(model, "infer-thresholds, export-finn")
    assert sorted(operators(result.model.graph)) == ["Add", "MultiThreshold"]
    np.testing.assert_array_equal(np.concatenate([results(result.model, one) for one in q]), expected)


def test_heads_of_attention_need_no_further_nodes():
    """Thresholds of heads and their features are those of the product before heads were parted."""
    body = f"h = Reshape (q, parted) t = Transpose <perm = [0, 2, 1, 3]> (h) y = {WEIGHTED} (t, T)"
    rows = np.sort(np.random.default_rng(0).normal(size=(2, 1, 4, 3)) * 9, axis=-1)
    text = (
        f"g (float[1,5,8] q) => (float[1,2,5,4] y) <{constants_text({'T': rows})}, int64[4] parted = {{1, 5, 2, 4}}> "
        f"{{ {body} }}"
    )
    model = model_of(text, opset=20, domains=DOMAINS)
    q = np.random.default_rng(1).integers(-32, 32, (1, 5, 8))
    expected = results(model, q)
    found = onnx_passes.apply(model, "separate-thresholds").model
    assert operators(found.graph) == ["MultiThreshold", "Reshape", "Transpose"]
    np.testing.assert_array_equal(results(found, q), expected)
