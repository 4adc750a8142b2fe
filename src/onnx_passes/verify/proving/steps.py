"""Steps at known places beside a function that only grows or only falls: equal around each step, equal everywhere.

Where one side is constant between thresholds, the other is monotone, and both agree at the points before and behind
every threshold and at both ends, monotony leaves no room between them. This holds of what is rounded, too: rounding
to the nearest keeps order.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.quantizing import quantizer_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.agreement import SIGNS, disagreement, signs_differ
from onnx_passes.verify.proving.domain import floats_around, points_of
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.pointwise import Pointwise, rows_of
from onnx_passes.verify.proving.running import SideBySide
from onnx_passes.verify.proving.sides import Side

METHOD = "steps of a monotone function"
_MOST_POINTS = 2**23
_NOT_EVERYWHERE = frozenset({"Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt"})
_APPROXIMATED = frozenset({"Softsign"})
_PRODUCTS = frozenset({"Mul", "Div", "BatchNormalization"})
_SLOPES = {"LeakyRelu": 0.01}
"""What only grows where its attribute ``alpha`` is not negative."""


def prove_steps(found: Pointwise, facts: Facts, ignores: Collection[str]) -> Proof | Unproved:
    """Compare two sides around the steps of one of them."""
    old_side, new_side = found.sides
    limits, other = _limits(new_side, found), old_side
    if limits is None:
        limits, other = _limits(old_side, found), new_side
    if limits is None:
        return Unproved("no side counts thresholds")
    points = points_of(found, facts)
    if reason := _not_monotone(other) or _may_be_nan(other, facts, bounded=points is not None):
        return Unproved(reason)
    if found.free is None:
        return Unproved("constants vary along every axis")
    source = found.source.dtype
    if points is None and source is not ir.DataType.FLOAT:
        return Unproved("it is not known what the value can be")
    dtype = source.numpy() if source is not None else np.dtype(np.float32)
    limits = np.where(np.isnan(limits), np.float32(np.inf), limits)
    if points is None:
        chosen, where = floats_around(limits, ignores), "every float"
    else:
        chosen, where = points.around(limits).astype(dtype), f"all {points}"
    if chosen.size > _MOST_POINTS:
        return Unproved(f"{chosen.size:,} points are too many")
    old, new = SideBySide(found.sides, facts)([found.laid(chosen)])
    if wrong := disagreement(old, new, ignores):
        return Unproved(f"{wrong}", refuted=points is None)
    facts_used = [
        f"both sides agree around every step of {found.channels} {'channel' if found.channels == 1 else 'channels'}"
        f" and are monotone between: equal for {where}",
        *((f"where {facts.assumed}",) if points is not None and facts.assumed else ()),
        *((SIGNS,) if signs_differ(old, new) else ()),
        *(("no NaN comes in",) if points is None and "nnan" in ignores else ()),
    ]
    return Proof("proved-here", METHOD, tuple(facts_used))


def _limits(side: Side, found: Pointwise) -> np.ndarray | None:
    """Return the thresholds between which a side is constant, a row for each channel."""
    rows: list[np.ndarray] = []
    for node in side.moving:
        if found.source not in node.inputs:
            continue
        row = rows_of(node, found) if node.op_type == "MultiThreshold" else None
        if row is None:
            return None
        rows.append(row)
    return np.concatenate(rows, axis=1) if rows and found.source not in side.results else None


def _not_monotone(side: Side) -> str:
    """Say why a side may go up and down."""
    for node in side.moving:
        if sum(side.is_dynamic(value) for value in node.inputs) != 1:
            return "ways part and join"
        if not _is_monotone(node, side):
            return f"{node.op_type} may go up and down"
    return ""


def _may_be_nan(side: Side, facts: Facts, *, bounded: bool) -> str:
    """Say what may make NaN of numbers: a product of zero and of what was too large."""
    for node in side.moving:
        held = [array for value in node.inputs if (array := constant(value)) is not None and array.dtype.kind == "f"]
        if not all(np.isfinite(array).all() for array in held):
            return f"a parameter of {node.op_type} is not finite"
        if node.op_type not in _PRODUCTS or all(array.all() for array in held):
            continue
        if not (bounded and all(facts.range_of(value).is_finite for value in node.outputs)):
            return f"{node.op_type} by 0 may make NaN of what is too large"
    return ""


def _is_monotone(node: ir.Node, side: Side) -> bool:
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
    if node.op_type in ("Mul", "BatchNormalization", "QuantizeLinear", "DequantizeLinear"):
        return True
    if node.op_type == "Div":
        return not side.is_dynamic(node.inputs[1])
    quantizer = quantizer_of(node)
    if quantizer is not None:
        return quantizer.to_integers
    traits = traits_of(node)
    return bool(traits.monotone) and not (traits.place_dependent and node.op_type not in ("Max", "Min"))
