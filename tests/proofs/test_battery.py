"""The battery: no wrong pair is accepted, and almost no right one is left undecided."""

from __future__ import annotations

import pytest

from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof, Unproved
from tests.proofs.battery import BATTERY, PUBLISHED, Pair
from tests.proofs.models import IMPORTS, pair

LEVELS = {"proved": "proved-here", "reals": "equal-in-reals"}
UNDECIDED: frozenset[str] = frozenset()
"""Right pairs that nothing is found out of; at most two."""

pytest.importorskip("z3")


def _answer(case: Pair) -> Proof | Unproved:
    imports = IMPORTS.replace('"" : 21', f'"" : {case.opset}')
    return prove_equal(*pair(case.interface, case.before, case.after, imports), domains=case.domains, effort="normal")


@pytest.mark.parametrize("case", BATTERY, ids=lambda case: case.name)
def test_the_battery(case: Pair):
    found = _answer(case)
    if case.expected == "wrong":
        assert isinstance(found, Unproved), case.why
        assert found.refuted, found.reason
        assert not case.flags or set(found.flags) == set(case.flags)
    elif case.name in UNDECIDED:
        assert isinstance(found, Unproved)
        assert not found.refuted
    else:
        assert isinstance(found, Proof), found
        assert found.level == LEVELS[case.expected], found


def test_the_battery_is_large_enough():
    assert len(PUBLISHED) >= 21
    assert len(BATTERY) >= 61
    assert len(UNDECIDED) <= 2
