"""Scales that move past computations on integers: the same integers, and the same real scale and bias.

Integers that a type of floats holds are added up exactly in any order. What is left is one scale and one bias, which
the model holds rounded: where it knows what these stand for, both sides mean the same, else they differ by rounding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_DOUBLE, EXACT_IN_FLOAT
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.traits import traits_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.forms import Form, Forms, NoFormError

METHOD = "the same integers, scale and bias"
_TOO_LARGE = "integers up to"
_LAST = frozenset({"Add", "Cast", "Identity", "Mul"})
"""What may stand behind integers: their scale and bias."""
_UNIT = 2.0**-24
_CLOSE = 16 * _UNIT
"""How far constants that were merged in floats may be from what was merged, in proportion."""


def prove_scaled(old: Fragment, new: Fragment, facts: Facts) -> Proof | Unproved:
    """Compare the scaled integers of two fragments, by local ranges or, if need be, by ranges of the model."""
    found = _prove(old, new, Forms(facts))
    if isinstance(found, Unproved) and found.reason.startswith(_TOO_LARGE):
        closely = _prove(old, new, Forms(facts, closely=True))
        if isinstance(closely, Proof) and facts.assumed:
            return replace(closely, facts=(*closely.facts, f"where {facts.assumed}"))
        return closely
    return found


def _prove(old: Fragment, new: Fragment, forms: Forms) -> Proof | Unproved:
    try:
        before, after = forms.of(old), forms.of(new)
    except NoFormError as error:
        return Unproved(str(error))
    if any(a.term != b.term or a.rank != b.rank for a, b in zip(before, after, strict=True)):
        return Unproved("both sides compute other integers")
    said = _exact_integers(new, forms)
    if isinstance(said, Unproved):
        return said
    pairs = list(zip(before, after, strict=True))
    counts = [each for a, b in pairs if (each := a.means(b)) is not None]
    if len(counts) == len(pairs):
        exactly, amount = (sum(each[place] for each in counts) for place in (0, 1))
        closely = max(_apart(a, b, known=True) for a, b in pairs)
        if exactly == amount:
            same = f"scale and bias are the same real numbers: all {amount} compared without rounding"
        else:
            same = f"all {amount} scales and biases agree to {closely:.0e} of their size, {exactly} without rounding"
        rounded = "the model holds them rounded, by at most 2⁻²⁴ of each"
        return Proof("proved-here", METHOD, (said, same, rounded), semantics=("levels", "reals"))
    apart = max(_apart(a, b) for a, b in pairs)
    if apart > _CLOSE:
        return Unproved(f"scale or bias differ by {apart:.2g} of their size")
    bound = max(_bound(a, b) for a, b in pairs)
    merged = f"scale and bias were merged in floats, and are off by {apart:.2g} of their size at most"
    return Proof("equal-in-reals", METHOD, (said, merged), bound)


def _exact_integers(side: Fragment, forms: Forms) -> str | Unproved:
    """Return the bound of the integers of a fragment as text, if floats hold all of them and all partial sums."""
    most, held = 0.0, "2²⁴"
    rounded: set[ir.Value] = set()
    for node in side.moving:
        if any(value in rounded for value in node.inputs):
            if node.op_type not in _LAST or sum(map(side.is_dynamic, node.inputs)) > 1:
                return Unproved(f"{node.op_type} computes with integers that were rounded")
            rounded.update(node.outputs)
            continue
        for value in node.outputs:
            form = forms.known[value]
            scale, bias = form.scale.integers(), form.bias.integers()
            limit = EXACT_IN_DOUBLE if value.dtype is ir.DataType.DOUBLE else EXACT_IN_FLOAT
            if scale is None or bias is None:
                # A mean is rounded, and so are the sums that it is made of, if they are too large.
                if (summed := _summed(node, form, forms)) > limit:
                    return Unproved(f"{_TOO_LARGE} {summed:,.0f} are more than {value.dtype} holds")
                rounded.add(value)
                continue
            size = form.size * float(np.abs(scale).max()) + float(np.abs(bias).max())
            if size > limit and node.op_type == "Cast":
                rounded.add(value)
            elif value.dtype not in (ir.DataType.DOUBLE, ir.DataType.FLOAT) or size > limit:
                return Unproved(f"{_TOO_LARGE} {size:,.0f} are more than {value.dtype} holds")
            elif size > most:
                most, held = size, "2⁵³" if value.dtype is ir.DataType.DOUBLE else "2²⁴"
    return f"integers and all partial sums are at most {most:,.0f} < {held}: exact in any order"


def _summed(node: ir.Node, form: Form, forms: Forms) -> float:
    """Return up to where the integers go that a node adds up before it scales them."""
    if traits_of(node).kind in ("elementwise", "movement") or node.op_type == "BatchNormalization":
        return 0.0
    found = 0.0
    for part in (forms.known[value] for value in node.inputs if value in forms.known):
        scale, bias = part.scale.integers(), part.bias.integers()
        if scale is not None and bias is not None:
            largest = part.size * float(np.abs(scale).max()) + float(np.abs(bias).max())
            found = max(found, largest * form.size / max(part.size, 1.0))
    return found


def _apart(a: Form, b: Form, *, known: bool = False) -> float:
    """Return the relative distance of scales and biases; the largest possible one if ``known``."""
    found: list[float] = []
    sizes = np.abs(a.scale.near), np.maximum(a.size_of_bias, b.size_of_bias)
    for x, y, size in zip((a.scale, a.bias), (b.scale, b.bias), sizes, strict=True):
        distance = x.slack + y.slack if known else np.abs(x.near - y.near)
        found.append(float((distance / np.maximum(size, 2.0**-126)).max()))
    return max(found)


def _bound(a: Form, b: Form) -> float:
    """Return how far results are apart at most: by rounding on either way, and by constants that differ."""
    lost = sum(_gamma(form.roundings) * float(form.reach.max()) for form in (a, b))
    scale = np.abs(a.scale.near - b.scale.near).max() * a.size
    return lost + float(scale) + float(np.abs(a.bias.near - b.bias.near).max())


def _gamma(roundings: int) -> float:
    """Return the relative error of so many roundings."""
    lost = roundings * _UNIT
    return lost / (1 - lost) if lost < 1 else float("inf")
