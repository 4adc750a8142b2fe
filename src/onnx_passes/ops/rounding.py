"""The ways of rounding that quantizers know, as QONNX names them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Attribute, Call
from onnx_passes.ops.portable import round_half_even

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

MODES = (
    "ROUND",
    "HALF_EVEN",
    "CEIL",
    "FLOOR",
    "UP",
    "DOWN",
    "HALF_UP",
    "HALF_DOWN",
    "ROUND_TO_ZERO",
)
"""ROUND and HALF_EVEN are one; so are DOWN and ROUND_TO_ZERO, which Brevitas writes."""


def rounding_mode(default: str) -> Attribute:
    """Describe the attribute that names a mode."""
    doc = (
        "ROUND or HALF_EVEN: to the nearest, ties to even; HALF_UP, HALF_DOWN: to the nearest, ties away from or "
        "towards zero; UP: away from zero; DOWN or ROUND_TO_ZERO: towards zero; CEIL; FLOOR"
    )
    return Attribute("rounding_mode", "string", doc, default=default, choices=MODES)


class Edge(NamedTuple):
    """Where a level begins: at a number, which belongs to the level if the edge is ``closed``."""

    at: Fraction
    closed: bool

    def is_passed(self, number: Any) -> bool:
        """Tell whether a number is on the level, or above it."""
        return bool(number >= self.at if self.closed else number > self.at)


def edge(mode: str, level: int) -> Edge:
    """Return where real numbers begin that are rounded to an integer or to more."""
    half, below = Fraction(2 * level - 1, 2), Fraction(level - 1)
    match mode:
        case "CEIL":
            return Edge(below, closed=False)
        case "FLOOR":
            return Edge(Fraction(level), closed=True)
        case "UP":
            return Edge(below, closed=False) if level > 0 else Edge(Fraction(level), closed=True)
        case "DOWN" | "ROUND_TO_ZERO":
            return Edge(Fraction(level), closed=True) if level > 0 else Edge(below, closed=False)
        case "HALF_UP":
            return Edge(half, closed=level > 0)
        case "HALF_DOWN":
            return Edge(half, closed=level <= 0)
        case _:
            return Edge(half, closed=level % 2 == 0)


def round_numpy(mode: str, x: np.ndarray) -> np.ndarray:
    """Round; infinities and NaN stay.

    UP, HALF_UP and HALF_DOWN multiply the rounded size by the sign, as QONNX does: this decides on the sign of zero,
    and that a number next to a half, too near for the sum or difference to tell, counts as a half.
    """
    if mode == "CEIL":
        return np.ceil(x)
    if mode == "FLOOR":
        return np.floor(x)
    if mode in ("DOWN", "ROUND_TO_ZERO"):
        return np.trunc(x)
    half = x.dtype.type(0.5)
    # The sign of NaN and the product of an infinity and zero are NaN, which is meant.
    with np.errstate(invalid="ignore"):
        if mode == "UP":
            return np.sign(x) * np.ceil(np.abs(x))
        if mode == "HALF_UP":
            return np.sign(x) * np.floor(np.abs(x) + half)
        if mode == "HALF_DOWN":
            return np.sign(x) * np.ceil(np.abs(x) - half)
    return np.rint(x)


def round_nodes(op: Builder, call: Call, mode: str, x: ir.Value) -> ir.Value:
    """Build what rounds a value of the type that ``call`` makes numbers of."""
    if mode == "CEIL":
        return op.Ceil(x)
    if mode == "FLOOR":
        return op.Floor(x)
    if mode in ("DOWN", "ROUND_TO_ZERO"):
        return op.Where(op.Greater(x, call.number(0)), op.Floor(x), op.Ceil(x))
    half = call.number(0.5)
    if mode == "UP":
        return op.Mul(op.Sign(x), op.Ceil(op.Abs(x)))
    if mode == "HALF_UP":
        return op.Mul(op.Sign(x), op.Floor(op.Add(op.Abs(x), half)))
    if mode == "HALF_DOWN":
        return op.Mul(op.Sign(x), op.Ceil(op.Sub(op.Abs(x), half)))
    return round_half_even(op, call, x)
