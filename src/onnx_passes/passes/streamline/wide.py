"""Convolutions with sums beyond float32: computed in exact parts, which are added in doubles.

ONNX Runtime has no convolution of doubles. Weights are split into digits of a larger base, ``w = d0 + 16 * d1``, and if
necessary inputs as well: each part is exact in float32, and so are the sums in doubles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.analysis.sums import greatest_sum, size_of, summed_axes
from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.streamline.form import FEWER_BITS, Form, FormBuilder

_MOST_DIGITS = 8
_CLIP_OF_INPUTS = 11
_TOO_LARGE = Reason("its sums exceed the integers that floats hold, even in parts", FEWER_BITS)


class _Term(NamedTuple):
    """A part of a convolution, and its factor in the sum."""

    factor: int
    x: ir.Value
    weights: np.ndarray


def convolution(make: FormBuilder, node: ir.Node, x: Form, w: Form) -> ir.Value | Reason:
    """Build a convolution of integers, in parts if necessary, or return the reason if these would be too many."""
    result, attributes = node.outputs[0], tuple(node.attributes.values())
    if not make.wide:
        return make.node(node.op_type, [x.integer, w.integer], result, attributes)
    terms = _terms(make, node, x, w)
    if terms is None:
        return _TOO_LARGE
    total: ir.Value | None = None
    for term in terms:
        digits = make.constant(term.weights, f"{w.integer.name}_digits", wide=False)
        part = make.node(node.op_type, [term.x, digits], result, attributes, wide=False)
        made = make.widened(part)
        if term.factor != 1:
            made = make.node("Mul", [made, make.constant(np.array(term.factor), f"{result.name}_base")], result)
        total = made if total is None else make.node("Add", [total, made], result)
    return _TOO_LARGE if total is None else total


def _terms(make: FormBuilder, node: ir.Node, x: Form, w: Form) -> list[_Term] | None:
    weights, ends = constant(w.integer), make.ends(x, node.inputs[0])
    axes = None if weights is None else summed_axes(node, 1, weights.ndim)
    if weights is None or ends is None or axes is None or x.integer.dtype is not ir.DataType.FLOAT:
        return None
    whole = weights.astype(np.int64)
    for amount in range(2, _MOST_DIGITS + 1):
        digits = _digits(whole, amount)
        if all(greatest_sum(digit, ends, axes) <= EXACT_IN_FLOAT for _, digit in digits):
            return [_Term(factor, x.integer, digit) for factor, digit in digits]
    if make.op.opset < _CLIP_OF_INPUTS:
        return None
    base = 1 << (size_of(ends).bit_length() + 1) // 2
    high, low = (ends[0] // base, ends[1] // base), (0, base - 1)
    for amount in range(1, _MOST_DIGITS + 1):
        digits = _digits(whole, amount)
        if all(greatest_sum(digit, each, axes) <= EXACT_IN_FLOAT for _, digit in digits for each in (high, low)):
            upper, lower = _halves(make, x.integer, base)
            return [
                _Term(factor * count, part, digit)
                for count, part in ((1, lower), (base, upper))
                for factor, digit in digits
            ]
    return None


def _digits(weights: np.ndarray, amount: int) -> list[tuple[int, np.ndarray]]:
    """Split integers into signed digits of one base, the lowest first, each with its weight in the sum."""
    bits = int(np.abs(weights).max(initial=0)).bit_length() + 1
    base = 1 << -(-bits // amount)
    found: list[tuple[int, np.ndarray]] = []
    rest, factor = weights, 1
    for _ in range(amount - 1):
        digit = (rest + base // 2) % base - base // 2
        found.append((factor, digit))
        rest, factor = (rest - digit) // base, factor * base
    return [each for each in (*found, (factor, rest)) if each[1].any()] or [(1, weights)]


def _halves(make: FormBuilder, x: ir.Value, base: int) -> tuple[ir.Value, ir.Value]:
    """Split integers into multiples of a base and non-negative remainders."""
    one = np.ones((1,) * (rank(x) or 0))
    share, less = (make.constant(one * number, f"{x.name}_base", wide=False) for number in (1 / base, -base))
    quotient = make.node("Mul", [x, share], x, wide=False)
    upper = make.node("Floor", [quotient], x, wide=False)
    taken = make.node("Mul", [upper, less], x, wide=False)
    rest = make.node("Add", [x, taken], x, wide=False)
    # The Clip changes nothing, but gives range analysis the bounds of the remainder.
    ends = [make.constant(np.array(number), f"{x.name}_bound", wide=False) for number in (0, base - 1)]
    return upper, make.node("Clip", [rest, *ends], x, wide=False)
