"""Evidence is composed along a run, on both axes: what is preserved, and how that is known."""

import itertools

import pytest

from onnx_passes.core.evidence import (
    KNOWN,
    PRESERVED,
    SEMANTICS,
    STEP,
    Evidence,
    Finding,
    RewriteProof,
    StepEvidence,
    findings_in,
    grouped,
    is_weaker,
    level_of,
    reaches,
)

RULE = RewriteProof(1, "A", SEMANTICS, "proved", "certificate")
HERE = RewriteProof(2, "B", SEMANTICS, "proved-here", "labelled run", ("16 elements",))
FLOATS = RewriteProof(3, "C", ("bits",), "proved-here", "every value compared")
EXACT = RewriteProof(4, "D", ("levels", "reals"), "proved-here", "exact thresholds")
REALS = RewriteProof(5, "E", ("reals",), "proved", "identity over the reals", (), 1e-7)
NONE = RewriteProof(6, "F", reason="too large")
EQUAL, CLOSE = Evidence("bits:sampled"), Evidence("tolerance:sampled")
UNVERIFIED, FAILED, UNCHANGED = Evidence("unverified"), Evidence("failed"), Evidence("unchanged")


def step(shown: Evidence | None, *proofs: RewriteProof, rewrites: int | None = None) -> StepEvidence:
    return StepEvidence(shown, proofs, len(proofs) if rewrites is None else rewrites, modified=True)


@pytest.mark.parametrize(
    ("evidence", "level"),
    [
        (step(EQUAL, RULE), "bits:proved"),
        (step(EQUAL, RULE, HERE), "bits:proved-here"),
        (step(CLOSE, RULE, REALS), "reals:proved"),
        (step(EQUAL, REALS), "bits:sampled, reals:proved"),
        (step(CLOSE, EXACT), "levels:proved-here"),
        (step(EQUAL, FLOATS), "bits:proved-here"),
        (step(EQUAL, RULE, NONE), "bits:sampled"),
        (step(CLOSE, RULE, NONE), "tolerance:sampled"),
        (step(EQUAL, RULE, rewrites=2), "bits:sampled"),
        (step(EQUAL), "bits:sampled"),
        (step(Evidence("bits:tested")), "bits:tested"),
        (step(Evidence("metric:sampled")), "metric:sampled"),
        (step(EQUAL, RewriteProof(STEP, "G", SEMANTICS, "proved-here"), rewrites=0), "bits:proved-here"),
        (
            step(EQUAL, RULE, RewriteProof(STEP, "G", reason="beside its rewrites, a weight was changed")),
            "bits:sampled",
        ),
        (step(FAILED, RULE), "failed"),
        (step(UNVERIFIED, RULE), "unverified"),
        (step(UNCHANGED, REALS), "unchanged"),
        (step(None, RULE), "unverified"),
        (StepEvidence(None, (), 0, modified=False), "unchanged"),
    ],
)
def test_level_of_a_step(evidence: StepEvidence, level: str) -> None:
    assert level_of([evidence]) == level


@pytest.mark.parametrize(
    ("steps", "level"),
    [
        ([], "unchanged"),
        ([step(UNCHANGED), step(EQUAL, RULE)], "bits:proved"),
        # Real numbers after bits: the floats before were those of the original.
        ([step(EQUAL, FLOATS), step(CLOSE, EXACT)], "levels:proved-here"),
        ([step(EQUAL, FLOATS), step(CLOSE, REALS)], "reals:proved-here"),
        ([step(EQUAL), step(CLOSE, REALS)], "reals:sampled"),
        # Floats after real numbers keep the rounding errors that were made before: nothing but what was run.
        ([step(CLOSE, REALS), step(EQUAL, FLOATS)], "tolerance:sampled"),
        ([step(CLOSE, EXACT), step(CLOSE, FLOATS)], "tolerance:sampled"),
        ([step(EQUAL, EXACT), step(EQUAL, FLOATS)], "bits:sampled"),
        ([step(CLOSE, EXACT), step(EQUAL)], "tolerance:sampled"),
        # What holds in every semantics keeps them all.
        ([step(CLOSE, EXACT), step(EQUAL, HERE), step(CLOSE, EXACT)], "levels:proved-here"),
        ([step(CLOSE, REALS), step(CLOSE, EXACT)], "reals:proved-here"),
        ([step(EQUAL, RULE), step(UNVERIFIED, RULE)], "unverified"),
        ([step(FAILED), step(UNVERIFIED)], "failed"),
        ([step(EQUAL, RULE), step(Evidence("metric:sampled"))], "metric:sampled"),
        ([step(Evidence("bits:tested")), step(EQUAL)], "bits:sampled"),
    ],
)
def test_level_of_steps_that_follow_one_another(steps: list[StepEvidence], level: str) -> None:
    assert level_of(steps) == level


def test_rewrites_of_one_step_follow_one_another_in_the_order_of_their_numbers() -> None:
    assert level_of([step(CLOSE, EXACT, FLOATS)]) == "levels:proved-here"  # 4 after 3
    late = RewriteProof(7, "C", ("bits",), "proved-here", "every value compared")
    assert level_of([step(CLOSE, late, EXACT)]) == "tolerance:sampled"


@pytest.mark.parametrize("first", [(RULE,), (FLOATS,), (EXACT,), (REALS,), ()])
@pytest.mark.parametrize("second", [(RULE,), (FLOATS,), (EXACT,), (REALS,), ()])
@pytest.mark.parametrize("shown", list(itertools.product((EQUAL, CLOSE), repeat=2)))
def test_a_run_is_never_stronger_than_its_steps(first, second, shown) -> None:
    steps = [step(shown[0], *first), step(shown[1], *second)]
    for finding in findings_in(level_of(steps)):
        assert all(reaches(level_of([each]), finding) for each in steps)


def test_findings_are_compared_on_both_axes() -> None:
    findings = [Finding(preserved, known) for preserved in PRESERVED for known in KNOWN]
    for a, b in itertools.product(findings, repeat=2):
        stronger = PRESERVED.index(a.preserved) <= PRESERVED.index(b.preserved)
        assert a.covers(b) == (stronger and KNOWN.index(a.known) <= KNOWN.index(b.known))
        assert Finding.parse(str(a)) == a


@pytest.mark.parametrize("text", ["", "sampled", "bits:", "bits:certain", "unverified"])
def test_a_text_that_is_not_a_finding_does_not_parse(text: str) -> None:
    with pytest.raises(ValueError, match="not a finding"):
        Finding.parse(text)


def test_bits_on_samples_are_not_a_proof_and_a_proof_over_the_reals_not_equal_bits() -> None:
    level = "bits:sampled, reals:proved"
    assert reaches(level, Finding("bits", "sampled"))
    assert reaches(level, Finding("reals", "proved"))
    assert reaches(level, Finding("tolerance", "tested"))
    assert not reaches(level, Finding("bits", "proved-here"))
    assert not reaches(level, Finding("levels", "proved-here"))
    assert reaches("unchanged", Finding("bits", "proved"))
    assert not reaches("unverified", Finding("metric", "sampled"))


@pytest.mark.parametrize(
    ("level", "other", "weaker"),
    [
        ("bits:sampled", "bits:sampled", False),
        ("bits:sampled", "unchanged", True),
        ("unchanged", "bits:proved", False),
        ("tolerance:sampled", "bits:sampled", True),
        ("reals:proved", "bits:sampled, reals:proved", True),
        ("unverified", "metric:sampled", True),
        ("metric:sampled", "unverified", False),
    ],
)
def test_levels_of_two_runs_are_compared(level: str, other: str, weaker: bool) -> None:
    assert is_weaker(level, other) == weaker


def test_rewrites_with_the_same_proof_are_listed_together() -> None:
    again = RewriteProof(7, "B", SEMANTICS, "proved-here", "labelled run", ("16 elements",))
    assert grouped([HERE, NONE, again]) == [
        {
            "level": "bits:proved-here",
            "rule": "B",
            "preserves": SEMANTICS,
            "known": "proved-here",
            "method": "labelled run",
            "facts": ("16 elements",),
            "applications": [2, 7],
        },
        {"rule": "F", "reason": "too large", "applications": [6]},
    ]


def test_text() -> None:
    assert REALS.text == "reals:proved (identity over the reals; at most 1e-07 off)"
    assert NONE.text == "not proved: too large"
