"""Thresholds of exact real numbers, compared with floats that are rounded and may choose another level at ties."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment, SideBySide
from onnx_passes.numbers.arithmetic import RealsArithmetic, UnknownOperatorError
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.quantizer import quantizer_of
from onnx_passes.ops.semantics.exact import apply
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.domain import Floats, Points, computed, is_arithmetic, points_of
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.forms import stands_for
from onnx_passes.verify.proving.pointwise import Pointwise
from onnx_passes.verify.proving.steps import limits_of, not_monotone

METHOD = "steps of a monotone function in real numbers"
_MOST_POINTS = 2**20
_GREATEST = np.finfo(np.float32).max


def prove_real_steps(found: Pointwise, facts: Facts) -> Proof | Unproved:
    """Compare the exact real values of the old fragment with thresholds, around each of them."""
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


class NoMeaningError(Exception):
    """The levels of a fragment in real numbers are not known, for a reason."""


def levels_meant(found: Pointwise, side: Fragment, points: np.ndarray) -> np.ndarray:
    """Return the levels of points ``[channels, n]``. Raises NoMeaningError."""

    def by_channel(numbers: Reals) -> Reals:
        return numbers.spread(found.rank).moved(lambda places: np.broadcast_to(places, found.layout).reshape(-1, 1))

    arithmetic, computed = RealsArithmetic(by_channel), {side.inputs[0]: Reals.of(points.astype(np.float64))}
    try:
        for node in side.moving:
            _require_edges(node)
            computed[node.outputs[0]] = apply(arithmetic, node, computed, stands_for)
    except (UnknownOperatorError, ArithmeticError) as error:
        raise NoMeaningError(str(error)) from error
    whole = computed[side.outputs[0]].integers()
    if whole is None:
        raise NoMeaningError("the result is no integer")
    return whole


def _require_edges(node: ir.Node) -> None:
    """Refuse quantizers that do not say where their levels begin, such as those of many thresholds."""
    quantizer = quantizer_of(node)
    if quantizer is None:
        return
    levels = quantizer.levels(node)
    if isinstance(levels, str) or quantizer.edge(node, levels.high) is None:
        raise NoMeaningError(f"{node.op_type} does not say where its levels begin")
