"""Steps at known places beside a function that only grows or only falls: equal around each step, equal everywhere.

Where one side is constant between thresholds, the other is monotone, and both agree at the points before and behind
every threshold and at both ends, monotony leaves no room between them. This holds of what is rounded, too: rounding
to the nearest keeps order.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment, SideBySide
from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.quantizer import quantizer_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.congruence import SIGNS, disagreement, signs_differ
from onnx_passes.verify.proving.domain import Floats, Points, computed, is_arithmetic, points_of
from onnx_passes.verify.proving.facts import SPENT, Facts
from onnx_passes.verify.proving.pointwise import Pointwise, rows_of
from onnx_passes.verify.ties.decisions import decides

METHOD = "steps of a monotone function"
_MOST_POINTS = 2**23
_MOST_STEPS = 2**18
_NOT_EVERYWHERE = frozenset({"Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt"})
_APPROXIMATED = frozenset({"Softsign"})
_PRODUCTS = frozenset({"Mul", "Div", "BatchNormalization"})
_BYTE = 8
_SLOPES = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0}
"""What only grows where its attribute ``alpha`` is not negative."""


def prove_steps(found: Pointwise, facts: Facts, ignores: Collection[str]) -> Proof | Unproved:
    """Compare two fragments around the steps of one of them: thresholds, or jumps found by bisection."""
    if found.free is None:
        return Unproved("constants vary along every axis")
    old, new = found.sides
    domain = points_of(found, facts)
    if domain is None and found.source.dtype is not ir.DataType.FLOAT:
        return Unproved("it is not known what the value can be")
    limits, others = limits_of(new, found), [old]
    if limits is None:
        limits, others = limits_of(old, found), [new]
    if limits is None:
        others = [old, new]
        if not any(map(decides, (*old.moving, *new.moving))):
            return Unproved("neither side makes steps")
        if len(old.outputs) > 1:
            return Unproved("steps are searched of one result, not of several")
    for side in others:
        if reason := not_monotone(side) or _may_be_nan(side, facts, bounded=domain is not None):
            return Unproved(reason)
    compared = _Compared(found, facts, domain or Floats(found.channels), ignores)
    wrong = compared.around(limits) if limits is not None else compared.searched()
    if wrong:
        return Unproved(wrong, refuted=domain is None and compared.differs)
    channels = "1 channel" if found.channels == 1 else f"{found.channels} channels"
    said = [
        f"both sides agree around every step of {channels} and are monotone between: equal for all {compared.domain}",
        *((f"where {facts.assumed}",) if domain is not None and facts.assumed else ()),
        *((SIGNS,) if compared.signs_differ else ()),
        *(("no NaN comes in",) if domain is None and "nnan" in ignores else ()),
    ]
    return Proof("proved-here", METHOD, tuple(said), semantics=("bits",))


class _Compared:
    """Runs both fragments on points of a domain; ``differs`` and ``signs_differ`` record differences seen."""

    def __init__(self, found: Pointwise, facts: Facts, domain: Points | Floats, ignores: Collection[str]) -> None:
        self.domain, self._found, self._ignores, self._budget = domain, found, ignores, facts.budget
        # Signs of zeros, and what becomes of NaN, are left to engines.
        plain = "nsz" in ignores and (isinstance(domain, Points) or "nnan" in ignores)
        by_numpy = plain and found.source.dtype is ir.DataType.FLOAT and all(map(is_arithmetic, found.sides))
        self._run = None if by_numpy else SideBySide(found.sides, facts.model, facts.executor)
        self._dtype = np.dtype(np.float32) if found.source.dtype is None else found.source.dtype.numpy()
        self.differs = self.signs_differ = False

    def around(self, limits: np.ndarray) -> str:
        """Compare around limits; return the violation, or an empty text."""
        chosen = self.domain.around(np.where(np.isnan(limits), np.float32(np.inf), limits))
        if isinstance(self.domain, Floats):
            chosen = np.concatenate([chosen, self.domain.beside(self._ignores)], axis=1)
        if chosen.size > _MOST_POINTS:
            return f"{chosen.size:,} points are too many"
        return self._compare(chosen)[0]

    def searched(self) -> str:
        """Bisect intervals between points of different levels down to steps; return the violation, or ""."""
        if self._budget.is_spent:
            return SPENT
        points = np.stack(self.domain.ends, axis=1)
        wrong, levels = self._compare(self.domain.at(points))
        while not wrong:
            open_ = (levels[:, 1:] != levels[:, :-1]) & (points[:, 1:] - points[:, :-1] > 1)
            if not open_.any():
                break
            middle = np.where(open_, points[:, :-1] + (points[:, 1:] - points[:, :-1]) // 2, points[:, :-1])
            self._budget.spend(middle.size)
            wrong, found = self._compare(self.domain.at(middle))
            points, levels = _beside_steps(_woven(points, middle), _woven(levels, found))
            if points.size > _MOST_STEPS:
                return f"more than {_MOST_STEPS:,} steps are too many"
        if wrong or not isinstance(self.domain, Floats):
            return wrong
        return self._compare(self.domain.beside(self._ignores))[0]

    def _compare(self, points: np.ndarray) -> tuple[str, np.ndarray]:
        """Return the violation, and the results of the old fragment on points."""
        found, points = self._found, points.astype(self._dtype)
        if self._run is not None:
            old, new = self._run(found.feeds(points))
        else:
            turned = points if found.signs is None else points * found.signs[:, None]
            old, new = ([computed(found, *each)] for each in zip(found.sides, (turned, points), strict=True))
        wrong = disagreement(old, new, self._ignores) or ""
        self.differs = self.differs or bool(wrong)
        self.signs_differ = self.signs_differ or signs_differ(old, new)
        return wrong, old[0] if self._run is None else found.unlaid(old[0])


def _woven(points: np.ndarray, between: np.ndarray) -> np.ndarray:
    """Interleave points with the values between them."""
    pairs = np.stack([points[:, :-1], between], axis=2).reshape(len(points), -1)
    return np.concatenate([pairs, points[:, -1:]], axis=1)


def _beside_steps(points: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out points on stretches: those on either side of a step are enough, and both ends."""
    differs = levels[:, 1:] != levels[:, :-1]
    kept = np.ones(points.shape, bool)
    kept[:, 1:-1] = differs[:, 1:] | differs[:, :-1]
    # Channels with fewer steps keep some more, as all have to have as many.
    most = int(kept.sum(axis=1).max())
    chosen = np.sort(np.argsort(~kept, axis=1, kind="stable")[:, :most], axis=1)
    return np.take_along_axis(points, chosen, axis=1), np.take_along_axis(levels, chosen, axis=1)


def limits_of(side: Fragment, found: Pointwise) -> np.ndarray | None:
    """Return the thresholds between which a side is constant, a row for each channel."""
    rows: list[np.ndarray] = []
    for node in side.moving:
        if found.source not in node.inputs:
            continue
        row = rows_of(node, found) if node.op_type == "MultiThreshold" else None
        if row is None:
            return None
        rows.append(row)
    return np.concatenate(rows, axis=1) if rows and found.source not in side.outputs else None


def not_monotone(side: Fragment) -> str:
    """Return the reason why a fragment may not be monotone; empty if it is."""
    for node in side.moving:
        if sum(side.is_dynamic(value) for value in node.inputs) != 1:
            return "ways part and join"
        if not _is_monotone(node, side):
            return f"{node.op_type} may go up and down"
    return ""


def _may_be_nan(side: Fragment, facts: Facts, *, bounded: bool) -> str:
    """Return the reason why finite inputs may give NaN, as a product of zero and an overflow does; empty if none."""
    for node in side.moving:
        held = [array for value in node.inputs if (array := constant(value)) is not None and array.dtype.kind == "f"]
        if not all(np.isfinite(array).all() for array in held):
            return f"a parameter of {node.op_type} is not finite"
        if node.op_type not in _PRODUCTS or all(array.all() for array in held):
            continue
        if not (bounded and all(facts.near_range_of(value).is_finite for value in node.outputs)):
            return f"{node.op_type} by 0 may make NaN of what is too large"
    return ""


def _is_monotone(node: ir.Node, side: Fragment) -> bool:
    if node.op_type in _NOT_EVERYWHERE or node.op_type in _APPROXIMATED:
        return False
    if node.op_type in _SLOPES:
        return node.attributes.get_float("alpha", _SLOPES[node.op_type]) >= 0
    if node.op_type == "MultiThreshold":
        weights = node.inputs[2] if len(node.inputs) > 2 else None
        held = constant(weights)
        return weights is None or (held is not None and bool((held >= 0).all()))
    if node.op_type == "PRelu":
        held = constant(node.inputs[1])
        return held is not None and bool((held >= 0).all())
    if node.op_type == "QuantizeLinear":
        # Those of fewer bits overflow in ONNX Runtime.
        dtype = node.outputs[0].dtype
        return dtype is not None and dtype.is_integer() and dtype.bitwidth >= _BYTE
    if node.op_type in ("Mul", "BatchNormalization", "DequantizeLinear"):
        return True
    if node.op_type == "Div":
        return not side.is_dynamic(node.inputs[1])
    quantizer = quantizer_of(node)
    if quantizer is not None:
        return quantizer.to_integers
    traits = traits_of(node)
    return bool(traits.monotone) and not (traits.place_dependent and node.op_type not in ("Max", "Min"))
