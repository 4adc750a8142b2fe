"""What no method proves where it stands is not certified of whole models either."""

from __future__ import annotations

import importlib

import pytest

from onnx_passes.proofs.model_certificate import certify
from tests.helpers.thorough import THOROUGH
from tests.verify.proving.near_misses.pairs import Pair
from tests.verify.proving.test_near_misses import METHODS

_ONE_IN = 1 if THOROUGH else 9
"""Of many near misses that are alike, so many are one."""
_OF_FLOATS = "equal-in-reals"


def _cases() -> list[object]:
    found: list[object] = []
    for method in METHODS:
        module = importlib.import_module(f"tests.verify.proving.near_misses.{method}")
        misses = [miss for place, pair in enumerate(module.PAIRS) for miss in _named(method, place, pair)]
        looks = [(f"{method}-look-{place}", pair) for place, pair in enumerate(getattr(module, "LOOKALIKES", ()))]
        # Bits that differ in the last place are no matter of real numbers; what is beyond rounding is.
        levels = ("proved", "proved-here", *([_OF_FLOATS] if hasattr(module, "BEYOND") else []))
        found += [pytest.param(pair, levels, id=name) for name, pair in (*misses, *looks)]
    return found[::_ONE_IN]


def _named(method: str, place: int, pair: Pair) -> list[tuple[str, Pair]]:
    return [(f"{method}-{place}-{name}", miss) for name, miss in pair.near_misses()]


@pytest.mark.parametrize(("pair", "levels"), _cases())
def test_a_near_miss_is_not_certified(pair: Pair, levels: tuple[str, ...]):
    found = certify(pair.model(pair.before), pair.model(pair.after))
    assert found.level not in levels


@pytest.mark.parametrize("name", ["wm", "bm"])
def test_no_coefficient_is_off_by_more_than_rounding(name: str):
    module = importlib.import_module("tests.verify.proving.near_misses.coefficients")
    for changed, array in module.PAIRS[0].other:
        if changed == name:
            pair = next(miss for _, miss in module.PAIRS[0].near_misses() if miss.held[name] is array)
            assert certify(pair.model(pair.before), pair.model(pair.after)).level not in ("proved-here", _OF_FLOATS)
