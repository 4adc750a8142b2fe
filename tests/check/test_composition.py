"""Verdicts compose by what they preserve: bits after bits, levels after levels, reals after bits, never the reverse."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from itertools import product

import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.proof_search import Method
from onnx_passes.check.verification import Verification
from onnx_passes.core.base import Pass
from onnx_passes.core.evidence import KNOWN, Evidence, RewriteProof, StepEvidence, findings_in, level_of
from onnx_passes.core.records import Application
from onnx_passes.proofs.proof import Proof, Unproved
from tests.passes.tools import model_of

TABLE = {
    ("bits", "bits"): "bits",
    ("bits", "levels"): "levels",
    ("bits", "reals"): "reals",
    ("levels", "levels"): "levels",
    ("reals", "reals"): "reals",
    ("levels", "bits"): "",
    ("reals", "bits"): "",
    ("levels", "reals"): "",
    ("reals", "levels"): "",
}
"""What is proved of two rewrites together, if the first preserves only one thing and the second only another."""
SEMANTICS = ("bits", "levels", "reals")


def step(preserves: Collection[str], known: str, shown: str = "tolerance:sampled") -> StepEvidence:
    return StepEvidence(Evidence(shown), [RewriteProof(1, "r", tuple(preserves), known)], 1, modified=True)


def proved(level: str) -> set[tuple[str, str]]:
    return {(finding.preserved, finding.known) for finding in findings_in(level) if finding.preserved in SEMANTICS}


@pytest.mark.parametrize(("first", "second"), product(SEMANTICS, repeat=2))
@pytest.mark.parametrize("known", list(product(KNOWN[:3], repeat=2)))
def test_two_rewrites(first: str, second: str, known: tuple[str, str]) -> None:
    found = proved(level_of([step([first], known[0]), step([second], known[1])]))
    together = TABLE[first, second]
    weaker = max(known, key=KNOWN.index)
    assert found == ({(together, weaker)} if together else set())


@pytest.mark.parametrize("sequence", list(product(SEMANTICS, repeat=4)))
def test_longer_runs_compose_two_by_two(sequence: tuple[str, ...]) -> None:
    expected = reduce(lambda kept, each: TABLE[kept, each] if kept else "", sequence)
    found = proved(level_of(step([each], "proved-here") for each in sequence))
    assert found == ({(expected, "proved-here")} if expected else set())


@pytest.mark.parametrize(
    "sets", list(product([("bits",), ("levels", "reals"), ("bits", "reals"), SEMANTICS], repeat=2))
)
def test_sets_of_semantics_compose_one_by_one(sets: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    kept, then = sets
    expected = {each for each in then if each in kept or "bits" in kept}
    known = proved(level_of([step(kept, "proved-here"), step(then, "proved-here")]))
    strongest = min(expected, key=SEMANTICS.index, default=None)
    assert known == ({(strongest, "proved-here")} if strongest else set())


def test_floats_after_reals_are_nothing_until_they_are_run() -> None:
    steps = [step(["reals"], "proved-here"), step(["bits"], "proved", "bits:sampled")]
    assert level_of(steps) == "tolerance:sampled"
    again = [step(["reals"], "proved-here", "bits:sampled"), step(["bits"], "proved", "bits:sampled")]
    assert level_of(again) == "bits:sampled"


@pytest.mark.parametrize("status", ["failed", "unverified"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_proof_outweighs_a_step_that_failed_or_did_not_run(status: str, place: int) -> None:
    steps = [step(SEMANTICS, "proved", "bits:sampled") for _ in range(3)]
    steps[place] = StepEvidence(Evidence(status), steps[place].proofs, 1, modified=True)
    assert level_of(steps) == status


def dropping(operator: str) -> type[Transformation]:
    """Return a pass that drops the second of two operators in a row."""

    class Drops(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return getattr(op, operator)(getattr(op, operator)(x))

        def rewrite(self, op, x):
            return getattr(op, operator)(x)

    return passes.verify.equality(type(f"Drops{operator}", (Drops,), {}))


class Stating:
    """A method that states a proof in the semantics that a test chose for the owner of a rewrite."""

    def __init__(self, chosen: dict[str, str]) -> None:
        self.chosen = chosen

    def begin(self, model) -> None: ...

    def prove(self, application: Application, owner: Pass, wanted: Collection[str]) -> Proof | Unproved:
        return Proof("proved-here", "stated", semantics=(self.chosen[owner.name],))

    def follow(self, application: Application, owner: Pass) -> None: ...


class Stated(Verification):
    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method

    def _methods(self, model) -> list[Method]:
        return [self.method]


NAMES = ("Abs", "Relu", "Ceil")


@pytest.mark.parametrize("sequence", list(product(SEMANTICS, repeat=3)))
def test_a_run_of_three_passes(sequence: tuple[str, ...]) -> None:
    model = model_of(
        "g (float[9] x) => (float[9] y) { a = Abs(x) b = Abs(a) c = Relu(b) d = Relu(c) e = Ceil(d) y = Ceil(e) }"
    )
    chain = [dropping(name)() for name in NAMES]
    chosen = dict(zip([pass_.name for pass_ in chain], sequence, strict=True))
    level = apply(model, chain, verify=Stated(Stating(chosen))).record.level
    expected = reduce(lambda kept, each: TABLE[kept, each] if kept else "", sequence)
    is_sampled = "bits:sampled" in level.split(", ")
    assert (f"{expected}:proved-here" in level) == bool(expected)
    # All three keep the bits of all samples; a proof of bits says as much, and more.
    assert is_sampled == (expected != "bits")
