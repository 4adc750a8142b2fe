"""Assumptions on kernels: that these give the same bits for the same numbers in another place, or in another kernel."""

from __future__ import annotations

from onnx_passes.proofs.proof import Assumption
from onnx_passes.proofs.symbolic import Evaluation
from onnx_passes.proofs.terms import Terms


def assumptions_of(terms: Terms, first: Evaluation, second: Evaluation) -> tuple[Assumption, ...]:
    """Return what equal terms of two models assume, so that outputs are equal bit by bit."""
    moved = first.places ^ second.places
    elements = sorted({place.operator for place in moved if not place.sums})
    sums = sorted({place.operator for place in moved if place.sums})
    found = [Assumption(f"{name} gives an element the same bits wherever it is", "equal-in-reals") for name in elements]
    if sums:
        found.append(Assumption(f"{', '.join(sums)}: the same sums are rounded alike in any place", "equal-in-reals"))
    return (*(Assumption(text) for text in sorted(terms.assumed)), *found)
