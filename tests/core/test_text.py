"""Short texts: of a length, and of names that stay distinct."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.core.text import shortened, told_apart

_PARTS = (
    "layer.0",
    "layer.1",
    "layer.10",
    "attention",
    "self",
    "query",
    "key",
    "MatMul",
    "MatMul_quant",
    "a",
    "…",
    "~2",
)


def test_a_text_is_cut_at_its_end_or_front():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcdef", 4, front=True) == "…def"


def test_names_are_shortened_to_what_tells_them_apart():
    names = [f"/encoder/layer.{number}/attention/self/query/MatMul" for number in range(12)]
    found = told_apart(names, 24)
    assert all(f"layer.{number}…" in found[name] for number, name in enumerate(names))
    assert all(len(text) <= 24 for text in found.values())


def test_names_that_differ_at_the_end_keep_it():
    assert dict(told_apart(["/one/two/three/first", "/one/two/three/second"], 12)) == {
        "/one/two/three/first": "…three/first",
        "/one/two/three/second": "…hree/second",
    }


@given(
    st.lists(st.one_of(st.text("ab/…~2", max_size=24), st.lists(st.sampled_from(_PARTS), max_size=6).map("/".join))),
    st.integers(4, 40),
)
def test_distinct_names_stay_distinct(names: list[str], most: int):
    found = told_apart(names, most)
    assert set(found) == set(names)
    assert len(set(found.values())) == len(found)
    assert all(len(text) <= most for text in found.values())
    assert all(found[name] == name for name in names if len(name) <= most)


@pytest.mark.parametrize("most", [6, 12, 20])
def test_many_names_of_one_kind_stay_distinct(most: int):
    names = [f"block{number}/the/same/long/end" for number in range(500)]
    found = told_apart(names, most)
    assert len(set(found.values())) == 500
    assert max(map(len, found.values())) <= most
