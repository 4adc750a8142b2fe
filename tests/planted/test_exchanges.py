"""Wrong nodes of many kinds, in small models and large ones, are found with no configuration."""

from __future__ import annotations

import pytest

from onnx_passes import apply
from onnx_passes.verify.failure import PostconditionError
from tests.planted import exchanges_floats, exchanges_integers, networks
from tests.planted.exchanges import Exchange

OF_INTEGERS, OF_FLOATS = exchanges_integers.all_of(), exchanges_floats.all_of()
OF_NETWORKS = [fault for kind in networks.KINDS for fault in networks.faults(kind, each=1)]
# Whether large sizes are affordable is a matter of measured time.
LARGE = [
    fault
    for fault in (*exchanges_integers.all_of(large=True), *exchanges_floats.all_of(large=True))
    if not fault.kind.startswith("size")
]


def some(faults: list[Exchange], step: int) -> list[Exchange]:
    """Take every so many, at least one of each kind."""
    return list({fault.kind: fault for fault in faults[::-1]}.values()) + faults[::step]


def is_found(fault: Exchange, *, announced: bool = True) -> bool:
    try:
        result = apply(fault.right(), fault.pass_class(announced=announced))
    except PostconditionError:
        return True
    assert result.modified
    return False


def test_enough_is_planted():
    assert len(OF_INTEGERS) >= 180
    assert len(OF_FLOATS) >= 180
    everywhere = [fault for kind in networks.KINDS for fault in networks.faults(kind)]
    for name in networks.CLASSES:
        assert sum(fault.kind.startswith(name) for fault in everywhere) >= 20


@pytest.mark.parametrize("fault", some(OF_INTEGERS, 24), ids=lambda fault: fault.name)
def test_wrong_integers_are_found(fault: Exchange):
    assert is_found(fault)


@pytest.mark.parametrize("fault", some(OF_FLOATS, 30), ids=lambda fault: fault.name)
def test_wrong_floats_are_found(fault: Exchange):
    assert is_found(fault)


@pytest.mark.parametrize("fault", OF_NETWORKS, ids=lambda fault: fault.name)
def test_small_faults_in_networks_are_found(fault: Exchange):
    """What is within the tolerance is no fault."""
    assert is_found(fault) or not fault.is_shown()


@pytest.mark.parametrize("fault", LARGE[::90], ids=lambda fault: fault.name)
def test_faults_in_large_models_are_found_by_their_results_alone(fault: Exchange):
    assert is_found(fault, announced=False)


@pytest.mark.parametrize("fault", [*OF_INTEGERS, *OF_FLOATS][::40], ids=lambda fault: fault.name)
def test_what_is_planted_is_wrong(fault: Exchange):
    assert fault.is_shown()
