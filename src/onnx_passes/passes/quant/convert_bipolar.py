"""Canonicalize quantizers to -1 or 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.rounding import greater_or_equal
from onnx_passes.passes.quant.linear import argument
from onnx_passes.passes.quant.quantizer import DOMAIN, quant, quantizer_of
from onnx_passes.passes.quant.samples import BIPOLAR
from onnx_passes.passes.quant.widths import Width
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

_UNDERFLOWS = 2.0
"""The least negative float divided by this or more underflows to zero."""


@passes.verify.equality
@passes.register(tags=("quant",))
class ConvertBipolar(Transformation, RewriteRuleSetPass):
    """Canonicalize quantizers to -1 or 1: as Quant of one signed bit, as BipolarQuant, or as a comparison.

    Rewrites: ``BipolarQuant(x, s)`` → ``Quant(x, s, 0, 1)``; with ``to=bipolar-quant`` the reverse, and ``Where(x >= 0,
              s, -s)`` → ``BipolarQuant(x, s)``; with ``to=standard`` ``BipolarQuant(x, s)`` → ``Where(x >= 0, 1, -1) *
              s``.
    Refuses:  to convert between Quant and BipolarQuant if scales are not constant, not positive, or at least 2: the
              least negative floats, divided by them, are zero; Quant with a zero point; types other than single
              precision.
    Exactness: bit-exact, NaN included, which becomes ``-s`` in all forms.
    """

    needs = ("import-qonnx", "shape-inference")
    converts = MappingProxyType(
        {
            "BipolarQuant": "",
            "Quant": "",
        }
    )
    fuzz_hints = MappingProxyType({"models": BIPOLAR})

    to: Literal["quant", "bipolar-quant", "standard"] = option("quant", "the canonical form")

    def is_wanted(self, node: ir.Node) -> bool:
        """Return whether a node quantizes to one bit, in another form than required."""
        if self.to != "bipolar-quant":
            return node.op_type == "BipolarQuant"
        bits = constant(argument(node, 3))
        signed = bool(node.attributes.get_int("signed", 1)) if "signed" in node.attributes else True
        return node.op_type == "Quant" and signed and bits is not None and bool((bits == 1).all())

    def rules(self) -> Sequence[Rule]:
        """Return the rules that lead to the required form."""
        if self.to == "bipolar-quant":
            return [_replacing("Quant", _to_bipolar), Rule(comparison, from_comparison, name="Where")]
        return [_replacing("BipolarQuant", _to_quant if self.to == "quant" else _to_standard)]


def _replacing(operator: str, build: Callable[[Builder, ir.Node], Rewritten]) -> Rule:
    def rewrite(op: Builder, node: ir.Node) -> Rewritten:
        x = argument(node, 0)
        if x is None or x.dtype is not ir.DataType.FLOAT:
            return no("the input is not known to be in single precision", at=x)
        return build(op, node)

    return node_rule(operator, rewrite, domain=DOMAIN, source=source_of(build))


def _to_quant(op: Builder, node: ir.Node) -> Rewritten:
    x, scale = node.inputs
    assert x is not None
    refusal = _unlike(constant(scale), node)
    if refusal is not None:
        return refusal
    return quant(op, x, scale, np.zeros((), np.float32), Width(1, signed=True, narrow=False))


def _to_standard(op: Builder, node: ir.Node) -> Rewritten:
    x, scale = node.inputs
    assert x is not None
    if scale is None or scale.dtype is not ir.DataType.FLOAT:
        return no("the scale is not known to be in single precision", at=scale)
    numbers = (np.array(number, np.float32) for number in (0, 1, -1))
    zero, one, other = numbers
    return op.Mul(op.Where(greater_or_equal(op, x, zero), one, other), scale)


def _to_bipolar(op: Builder, node: ir.Node) -> Rewritten:
    given = quantizer_of(node)
    if isinstance(given, Refusal):
        return given
    if not given.width.is_bipolar:
        return no("it is not of one signed bit", at=node)
    if given.zero.any():
        return no("it has a zero point", at=node)
    if given.shape != given.scale.shape:
        return no("zero point or bit width may enlarge the result", at=node)
    refusal = _unlike(given.scale, node)
    return op.BipolarQuant(*node.inputs[:2], _domain=DOMAIN) if refusal is None else refusal


def _unlike(scale: np.ndarray | None, node: ir.Node) -> Refusal | None:
    """Return the reason if comparing with zero is not the same before and after division by a scale."""
    if scale is None or scale.dtype != np.float32:
        return no("the scale is not constant in single precision", at=node)
    return None if ((scale > 0) & (scale < _UNDERFLOWS)).all() else no("a scale is not between 0 and 2", at=node)


def comparison(op: Op, x: Var, zero: Var, positive: Var, negative: Var) -> Var:
    """Match a Where between two values by the sign of a third."""
    return op.Where(op.GreaterOrEqual(x, zero), positive, negative)


def from_comparison(op: Builder, x: ir.Value, zero: ir.Value, positive: ir.Value, negative: ir.Value) -> Rewritten:
    """Replace the Where by BipolarQuant if the values are opposite constants."""
    limit, one, other = constant(zero), constant(positive), constant(negative)
    if limit is None or one is None or other is None or any(array.dtype != np.float32 for array in (limit, one, other)):
        return no("bound and choices are not all constants in single precision", at=positive)
    if limit.size != 1 or limit.any():
        return no("it does not compare with zero", at=zero)
    if one.shape != other.shape or not np.array_equal(one, -other) or not (np.abs(one) > 0).all():
        return no("the choices are not opposite numbers", at=positive)
    if limit.ndim > one.ndim and (rank(x) or 0) < limit.ndim:
        return no("the comparison raises the rank", at=zero)
    return op.BipolarQuant(x, positive, _domain=DOMAIN)
