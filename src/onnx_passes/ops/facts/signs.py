"""Signs of values: values without ``-0.0``, to which zero can be added, and values that are never negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant, finite_constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import is_integral
from onnx_passes.graph.traits import operators
from onnx_passes.ops.number_systems.constants import limits_of, wide
from onnx_passes.ops.semantics.batch_normalization import Normalization

SignRule = Callable[[ir.Node, int], bool]
"""Returns whether results of a node never have the sign; the number limits the producers to visit."""
POSITIVE_ZEROS: Interface[SignRule] = Interface("positive_zeros", "whether its zeros are never negative")
NEVER_NEGATIVE: Interface[SignRule] = Interface(
    "never_negative", "whether the integers that it gives are never negative"
)

_FAR = 8
"""Maximum number of producers to visit in a row."""
_SURELY = 1e-6
"""Sums larger than this share of their summands are not zero, for any rounding."""
_MOVING = tuple(name for name in operators("movement") if name not in ("Concat", "Pad"))
"""Operators that return elements of their first input, and at most zeros."""


def has_positive_zeros(value: ir.Value | None, far: int = _FAR) -> bool:
    """Return whether a value is known never to hold ``-0.0``."""
    if value is None or is_integral(value):
        return value is not None
    array = constant(value)
    if array is not None:
        return array.dtype != object and not bool((np.signbit(array.astype(np.float64)) & (array == 0)).any())
    node = value.producer()
    rule = None if node is None or far == 0 else POSITIVE_ZEROS.get(node)
    return rule is not None and node is not None and rule(node, far - 1)


def is_never_negative(value: ir.Value | None, far: int = _FAR) -> bool:
    """Return whether a value holds integers that are known never to be negative."""
    if value is None or not is_integral(value):
        return False
    array = constant(value)
    if array is not None:
        return bool((array >= 0).all())
    node = value.producer()
    rule = None if node is None or far == 0 else NEVER_NEGATIVE.get(node)
    return rule is not None and node is not None and rule(node, far - 1)


def _always(_: ir.Node, __: int) -> bool:
    return True


def _as(*places: int) -> SignRule:
    """Return the rule for results that are elements of these inputs, or positive zeros."""
    return lambda node, far: all(has_positive_zeros(argument(node, place), far) for place in places)


def _all(node: ir.Node, far: int) -> bool:
    return all(has_positive_zeros(value, far) for value in node.inputs)


def _any(node: ir.Node, far: int) -> bool:
    # A sum is a negative zero only if all summands are: cancellation gives a positive zero.
    return any(has_positive_zeros(value, far) for value in node.inputs)


def _of_integers(node: ir.Node, _: int) -> bool:
    return is_integral(node.inputs[0])


def _biased(node: ir.Node, _: int) -> bool:
    """Return whether a certainly non-zero bias is added to each sum."""
    bias, beta = constant(argument(node, 2)), node.attributes.get_float("beta", 1.0)
    return bias is not None and bool((np.abs(wide(bias) * beta) >= float(limits_of(bias).smallest_normal)).all())


def _shifted(node: ir.Node, _: int) -> bool:
    """Return whether a batch normalization, as product and sum, adds a certainly non-zero number."""
    arrays = [finite_constant(argument(node, place)) for place in (1, 2, 3, 4)]
    found = Normalization.of(node, arrays)
    if isinstance(found, str):
        return False
    bias, moved = found.shift.near, (found.mean * found.factor).near
    return bool((np.abs(bias - moved) > _SURELY * np.maximum(np.abs(bias), np.abs(moved))).all())


POSITIVE_ZEROS.attach(
    {
        **dict.fromkeys(("Abs", "Exp", "Softmax"), _always),
        **dict.fromkeys(("Conv", "Gemm"), _biased),
        **dict.fromkeys((*_MOVING, "Identity", "MaxPool", "Relu", "Sub"), _as(0)),
        **dict.fromkeys(("Add", "Sum"), _any),
        "BatchNormalization": _shifted,
        "Cast": _of_integers,
        "Concat": _all,
        "Where": _as(1, 2),
    }
)


def _counts_up(node: ir.Node, far: int) -> bool:
    delta = constant(argument(node, 2))
    return is_never_negative(argument(node, 0), far) and delta is not None and bool((delta > 0).all())


def _moved(node: ir.Node, far: int) -> bool:
    return is_never_negative(argument(node, 0), far)


NEVER_NEGATIVE.attach(
    {
        **dict.fromkeys(("ArgMax", "ArgMin", "NonZero", "Shape", "Size"), _always),
        **dict.fromkeys((*_MOVING, "Identity"), _moved),
        "Concat": lambda node, far: all(is_never_negative(value, far) for value in node.inputs),
        "Range": _counts_up,
    }
)
