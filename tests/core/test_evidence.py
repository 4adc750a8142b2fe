"""Steps are as well known as the weakest of their rewrites, or as what runs showed."""

import pytest

from onnx_passes.core.evidence import LADDER, STEP, Evidence, RewriteProof, combined, grouped, rank, weakest

PROVED = RewriteProof(1, "A", "proved", "certificate")
HERE = RewriteProof(2, "B", "proved-here", "finite domain", ("16 integers",))
REALS = RewriteProof(3, "C", "equal-in-reals", "affine", (), 1e-7)
NONE = RewriteProof(4, "D", reason="too large")
SAMPLED, TOLERANCE = Evidence("sampled"), Evidence("tolerance")


def test_levels_are_ordered() -> None:
    assert [rank(level) for level in LADDER] == sorted(rank(level) for level in LADDER)
    assert rank("unchanged") < rank("proved") < rank("unverified") < rank("failed")
    assert weakest(["proved", "sampled", "proved-here"]) == "sampled"
    assert weakest([]) == "unchanged"


@pytest.mark.parametrize(
    ("evidence", "proofs", "rewrites", "level"),
    [
        (SAMPLED, [PROVED, HERE], 2, "proved-here"),
        (TOLERANCE, [PROVED, REALS], 2, "equal-in-reals"),
        (Evidence("unverified"), [PROVED], 1, "proved"),
        (SAMPLED, [PROVED, NONE], 2, "sampled"),
        (SAMPLED, [PROVED], 2, "sampled"),
        (SAMPLED, [], 0, "sampled"),
        (SAMPLED, [RewriteProof(STEP, "E", "proved", "nothing changed")], 0, "proved"),
        (Evidence("failed"), [PROVED], 1, "failed"),
        (Evidence("unchanged"), [REALS], 1, "unchanged"),
        (None, [PROVED], 1, "proved"),
        (None, [], 0, "unverified"),
    ],
)
def test_level_of_a_step(evidence: Evidence | None, proofs: list[RewriteProof], rewrites: int, level: str) -> None:
    assert combined(evidence, proofs, rewrites, modified=True) == level


def test_a_step_that_changes_nothing_needs_no_evidence() -> None:
    assert combined(None, [], 0, modified=False) == "unchanged"


def test_rewrites_of_which_the_same_is_known_are_listed_together() -> None:
    again = RewriteProof(7, "B", "proved-here", "finite domain", ("16 integers",))
    assert grouped([HERE, NONE, again]) == [
        {
            "rule": "B",
            "level": "proved-here",
            "method": "finite domain",
            "facts": ("16 integers",),
            "applications": [2, 7],
        },
        {"rule": "D", "reason": "too large", "applications": [4]},
    ]


def test_text() -> None:
    assert REALS.text == "equal-in-reals (affine; at most 1e-07 off)"
    assert NONE.text == "not proved: too large"
