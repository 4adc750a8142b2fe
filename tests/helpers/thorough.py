"""How much of what takes long is tested: some of it each time, all of it with THOROUGH in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

THOROUGH = "THOROUGH" in os.environ


def some(items: Iterable[T], *, every: int) -> list[T]:
    """Return every n-th of many cases that are alike, or all of them where time is given."""
    return list(items)[:: 1 if THOROUGH else every]
