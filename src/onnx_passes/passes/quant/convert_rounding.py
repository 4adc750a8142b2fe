"""Fuse rounding between two bounds into Quant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.quant.convert_bipolar import comparison, from_comparison
from onnx_passes.passes.quant.quantizer import DOMAIN
from onnx_passes.passes.quant.samples import ROUNDED
from onnx_passes.passes.quant.widths import exact_width, smallest_width
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, OrValue, Var
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no, yes
from onnx_passes.rewrite.rule import Rule

_MODES = {"Round": "ROUND", "Floor": "FLOOR", "Ceil": "CEIL"}


@passes.verify.equality
@passes.register(tags=("quant",))
class ConvertRounding(Transformation, RewriteRuleSetPass):
    """Fuse rounding between two bounds, as inline-qonnx and others write quantizers, into Quant.

    Rewrites: ``Round(Clip(x, -8, 7))`` and ``Clip(Round(x), -8, 7)`` → ``Quant(x, 1, 0, 4)``, likewise with ``Floor``
              and ``Ceil``; before rounding, bounds may also be written with ``Min`` and ``Max``, or by comparing. If no
              width has the range: ``Clip(Quant(x, 1, 0, 4), -5, 7)``. ``Where(x >= 0, s, -s)`` → ``BipolarQuant(x,
              s)``.
    Refuses:  bounds that are not constant, not integers, or not the same for all elements; types other than single
              precision.
    Exactness: bit-exact, except for NaN and the sign of zeros.
    """

    needs = ("import-qonnx", "shape-inference")
    fast_math = ("nnan", "nsz")
    converts = MappingProxyType(
        {
            "Ceil": "",
            "Clip": "",
            "Floor": "",
            "Round": "",
        }
    )
    fuzz_hints = MappingProxyType({"models": ROUNDED})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each rounding of a bounded value, one for bounds of a rounded value, and one for signs."""
        return [
            *(Rule(_bounded(operator), _to_quant, _check, name=f"Bounded{operator}") for operator in _MODES),
            Rule(_rounded, _to_quant, _check, name="RoundedClip"),
            Rule(comparison, from_comparison, name="Where"),
        ]


def _bounded(operator: str) -> Callable[..., Var]:
    def pattern(op: Op, x: Var, low: Var, high: Var, low_too: Var, high_too: Var) -> Var:
        below = op.Where(op.Greater(x, high), high_too, x)
        compared = op.Where(op.Less(below, low), low_too, below)
        inside = OrValue([op.Clip(x, low, high), op.Max(op.Min(x, high), low), op.Min(op.Max(x, low), high), compared])
        return getattr(op, operator)(inside, _outputs=["y"])

    return pattern


def _rounded(op: Op, x: Var, low: Var, high: Var) -> Var:
    return op.Clip(OrValue([getattr(op, operator)(x) for operator in _MODES], name="r"), low, high)


def _check(
    match: Match,
    x: ir.Value,
    low: ir.Value,
    high: ir.Value,
    low_too: ir.Value | None = None,
    high_too: ir.Value | None = None,
) -> Refusal | bool:
    if x.dtype is not ir.DataType.FLOAT or rank(x) is None:
        return no("the rounded value is not known to be in single precision", at=x)
    bounds = [_bound(value, x) for value in (low, high, low_too or low, high_too or high)]
    refusal = next((bound for bound in bounds if isinstance(bound, Refusal)), None)
    if refusal is not None:
        return refusal
    least, most, least_too, most_too = (bound for bound in bounds if not isinstance(bound, Refusal))
    if (least, most) != (least_too, most_too):
        return no("it replaces by other numbers than it compares with", at=low)
    return yes if least < most else no("there are no integers between the bounds", at=low)


def _to_quant(
    op: Builder, x: ir.Value, low: ir.Value, high: ir.Value, y: ir.Value | None = None, r: ir.Value | None = None
) -> Rewritten:
    rounding = (y or r or x).producer()
    assert rounding is not None
    least, most = (int(bound) for bound in (_bound(low, x), _bound(high, x)) if not isinstance(bound, Refusal))
    exact = exact_width(least, most)
    width = exact or smallest_width(least, most)
    one, zero, bits = (np.array(number, np.float32) for number in (1, 0, width.bits))
    result = op.Quant(
        *(x, one, zero, bits),
        _domain=DOMAIN,
        signed=int(width.signed),
        narrow=int(width.narrow),
        rounding_mode=_MODES[rounding.op_type],
    )
    if exact is not None:
        return result
    result.type, result.shape = x.type, x.shape
    return op.Clip(result, np.array(least, np.float32), np.array(most, np.float32))


def _bound(value: ir.Value, x: ir.Value) -> float | Refusal:
    held = constant(value)
    if held is None or held.size != 1 or held.ndim > (rank(x) or 0):
        return no("a bound is not one constant for all elements", at=value)
    number = float(held.flat[0])
    if not number.is_integer() or abs(number) > EXACT_IN_FLOAT:
        return no("a bound is not an integer that floats hold", at=value)
    return number
