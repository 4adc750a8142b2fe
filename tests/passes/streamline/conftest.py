"""Scales to quantize with."""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Scales(NamedTuple):
    """Three scales; of powers of two all results are exact."""

    s: float
    t: float
    u: float
    exact: bool

    @property
    def named(self) -> dict[str, float]:
        """Return the scales as constants of a network."""
        return {"s": self.s, "t": self.t, "u": self.u}


@pytest.fixture(params=[Scales(0.25, 0.5, 0.125, True), Scales(0.3, 0.17, 0.21, False)], ids=["powers", "any"])
def scales(request: pytest.FixtureRequest) -> Scales:
    """Let a test run on scales that are powers of two, and on others."""
    return request.param
