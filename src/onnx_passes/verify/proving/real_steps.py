"""Thresholds that stand for real numbers: where floats of the other side are rounded, and go elsewhere at ties."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.running import SideBySide
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.arithmetic import computed, is_arithmetic
from onnx_passes.verify.proving.domain import Floats, Points, points_of
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.meant import NoMeaningError, levels_meant
from onnx_passes.verify.proving.pointwise import Pointwise
from onnx_passes.verify.proving.steps import limits_of, not_monotone

METHOD = "steps of a monotone function in real numbers"
_MOST_POINTS = 2**20
_GREATEST = np.finfo(np.float32).max


def prove_real_steps(found: Pointwise, facts: Facts) -> Proof | Unproved:
    """Compare what the old side means, in real numbers, with thresholds, around each of them."""
    old, new = found.sides
    limits = limits_of(new, found)
    if len(old.outputs) > 1:
        return Unproved("levels are computed of one result, not of several")
    if limits is None or found.free is None or found.source.dtype is not ir.DataType.FLOAT:
        return Unproved("the new side counts no thresholds of floats")
    if reason := not_monotone(old):
        return Unproved(reason)
    domain = points_of(found, facts) or Floats(found.channels)
    points = domain.around(np.where(np.isfinite(limits), limits, np.float32(0)))
    if points.size > _MOST_POINTS:
        return Unproved(f"{points.size:,} points are too many to compute without rounding")
    held = np.clip(points, -_GREATEST, _GREATEST).astype(np.float32)
    if isinstance(domain, Points) and not np.array_equal(held, points):
        return Unproved("floats do not hold all points")
    if is_arithmetic(new):
        counted = computed(found, new, held)
    else:
        counted = found.unlaid(SideBySide((new,), facts.model, facts.executor)([found.feeds(held)[-1]])[0][0])
    try:
        levels = levels_meant(found, old, held if found.signs is None else held * found.signs[:, None])
    except NoMeaningError as error:
        return Unproved(str(error))
    if not np.array_equal(levels, counted):
        return Unproved("thresholds are not where levels begin")
    channels = "1 channel" if found.channels == 1 else f"{found.channels} channels"
    said = [
        f"in real numbers, both sides agree around every step of {channels} and are monotone between: equal for all"
        f" {domain}",
        "floats of the old side are rounded, and go elsewhere at ties",
        *((f"where {facts.assumed}",) if isinstance(domain, Points) and facts.assumed else ()),
    ]
    return Proof("proved-here", METHOD, tuple(said), semantics=("levels", "reals"))
