"""No measure of the architecture rises above the number that is written down for it."""

from __future__ import annotations

import pytest

from tests.house.measures import MEASURES, limits


@pytest.mark.parametrize("name", MEASURES)
def test_no_measure_rises(name: str):
    found, limit = MEASURES[name](), limits()[name]
    listed = "\n  ".join(found)
    assert len(found) <= limit, f"{len(found)} {name}, {limit} were:\n  {listed}"
