"""Faults that few values show are found with no configuration."""

from __future__ import annotations

import pytest

from onnx_passes import apply
from onnx_passes.check.verification import Verification
from onnx_passes.verify.failure import PostconditionError
from tests.planted import rare_edges, rare_shapes, rare_specials
from tests.planted.planting import Fault

FAULTS = [*rare_edges.FAULTS, *rare_specials.FAULTS, *rare_shapes.FAULTS]
TOO_RARE = {"comparison behind a product", "halves rounded up behind a product"}
"""What takes a sum of products that comes to a number bit by bit."""


def test_enough_is_planted():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 36
    assert len(TOO_RARE) <= len(FAULTS) // 20


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.name not in TOO_RARE], ids=lambda f: f.name)
def test_fault_is_found(fault: Fault):
    with pytest.raises(PostconditionError):
        apply(fault.model(), fault.pass_class())


@pytest.mark.parametrize("fault", rare_specials.FAULTS[:10], ids=lambda f: f.name)
def test_flags_say_what_is_not_promised(fault: Fault):
    """A pass that promises nothing about NaN and infinities is not held to it."""
    pass_class = type(fault.pass_class.__name__, (fault.pass_class,), {"fast_math": ("nnan", "ninf", "nsz")})
    assert apply(fault.model(), pass_class()).modified


def test_special_values_are_left_out_on_demand():
    fault = next(fault for fault in FAULTS if fault.name == "NaN never replaced")
    assert apply(fault.model(), fault.pass_class(), verify=Verification(special=False)).modified
