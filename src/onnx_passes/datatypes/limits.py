"""Up to where floats hold all integers, so that sums and products of integers are exact."""

from __future__ import annotations

EXACT_IN_FLOAT = 2**24
"""Up to here float32 has all integers, and sums of them are those of integers."""
EXACT_IN_DOUBLE = 2**53
"""Up to here double has all integers."""
