"""Repeat passes until nothing changes."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core import compose


@passes.register(tags=("control",))
class Fixpoint(compose.Fixpoint):
    """Repeat a nested pipeline until the structure of the model no longer changes.

    Rewrites: ``fixpoint{max=20}(a, b)`` runs ``a, b`` repeatedly.
    Refuses:  to continue after ``max`` rounds, or when a round restores an earlier state; both are noted.
    Exactness: that of its members.
    """
