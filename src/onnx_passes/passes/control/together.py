"""Apply the rules of several passes in one worklist."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.rewrite import together


@passes.register(tags=("control",))
class Together(together.Together):
    """Apply the rules of several passes in one worklist until none matches: faster than pass after pass.

    Rewrites: ``together(a, b)`` applies the rules of ``a`` and ``b`` wherever they match, those of ``a`` first.
    Refuses:  passes without rules, except in a group, where they are left out; the cases that its members refuse.
    Exactness: that of its members, rewrite by rewrite.
    """
