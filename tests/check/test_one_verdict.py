"""Everyone who judges a pair of models gives the same verdict, with the same level."""

from __future__ import annotations

import pytest

from onnx_passes.core.claims import ClaimKind
from onnx_passes.core.evidence import FAILED, UNVERIFIED
from tests.check.askers import ASKERS, FUZZERS, HOLDS
from tests.check.pairs import DRAWS, PAIRS, Pair


@pytest.mark.parametrize("claim", ["equality", "tolerance"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_all_who_are_asked_agree(pair: Pair, claim: ClaimKind) -> None:
    expected = pair.equality if claim == "equality" else pair.tolerance
    found = {name: asker(*pair.models(), claim) for name, asker in ASKERS.items()}
    if expected == DRAWS:
        expected = found["run"]
        assert expected in DRAWS
    coarse = expected if expected in (FAILED, UNVERIFIED) else HOLDS
    # What cannot be run at all shows no failure that could be reduced.
    accepted = {expected, coarse, *([HOLDS] if coarse == UNVERIFIED else [])}
    wrong = {name: level for name, level in found.items() if level not in accepted}
    assert not wrong, f"{pair.name}, {claim}: expected {expected}"


STRICTER = {
    "one unit in the last place": "a tolerance does not let the largest numbers overflow",
    "overflow on the way": "a tolerance does not let the largest numbers overflow",
    "NaN is kept by one of them": "a tolerance keeps NaN where it is",
    "a default that nobody can override any more": "rules keep the interface to the letter",
}
"""Where rules are held to more than the claim says, and why."""
SECONDED = "zero divided by zero"
"""Of a model without kernels in ONNX Runtime, random pipelines ask the second engine, which finds both equal."""


@pytest.mark.parametrize("claim", ["equality", "tolerance"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_fuzzing_finds_what_a_run_refuses_and_no_more(pair: Pair, claim: ClaimKind) -> None:
    expected = pair.equality if claim == "equality" else pair.tolerance
    if expected == DRAWS:
        pytest.skip("models that draw random numbers are not fuzzed")
    coarse = expected if expected in (FAILED, UNVERIFIED) else HOLDS
    accepted = {coarse, *([FAILED] if pair.name in STRICTER else [])}
    found = {name: asker(*pair.models(), claim) for name, asker in FUZZERS.items()}
    if pair.name == SECONDED:
        del found["fuzz --models"]
    assert set(found.values()) <= accepted, found


def test_there_are_pairs_of_every_kind() -> None:
    levels = [level for pair in PAIRS for level in (pair.equality, pair.tolerance)]
    assert len(PAIRS) >= 40
    assert all(levels.count(level) >= 2 for level in ("bits:sampled", "tolerance:sampled", FAILED, UNVERIFIED))
