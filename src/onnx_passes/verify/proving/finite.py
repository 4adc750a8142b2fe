"""Functions of a value that can only be one of so many numbers: both sides are run on all of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from onnx_passes.fragment.fragment import SideBySide
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.congruence import SIGNS, disagreement, signs_differ
from onnx_passes.verify.proving.domain import points_of
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.pointwise import Pointwise

METHOD = "every value compared"
_MOST_POINTS = 2**17
_MOST_ELEMENTS = 2**22


def prove_finite(found: Pointwise, facts: Facts, ignores: Collection[str]) -> Proof | Unproved:
    """Run two fragments on all points of the grid of their input."""
    points = points_of(found, facts)
    if points is None:
        return Unproved("the value is not known to be one of finitely many")
    if points.most > _MOST_POINTS or points.most * found.channels > _MOST_ELEMENTS:
        return Unproved(f"{points.most * found.channels:,} values are too many to look at each")
    if found.free is None:
        return Unproved("constants vary along every axis")
    dtype = np.dtype(np.float32) if found.source.dtype is None else found.source.dtype.numpy()
    old, new = SideBySide(found.sides, facts.model, facts.executor)(found.feeds(points.all().astype(dtype)))
    if wrong := disagreement(old, new, ignores):
        return Unproved(wrong)
    channels = "" if found.channels == 1 else f" of {found.channels} channels"
    said = [
        f"all {points}{channels} compared",
        *((f"where {facts.assumed}",) if facts.assumed else ()),
        *((SIGNS,) if signs_differ(old, new) else ()),
    ]
    return Proof("proved-here", METHOD, tuple(said), semantics=("bits",))
