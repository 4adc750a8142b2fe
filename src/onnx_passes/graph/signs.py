"""Signs of values: which never hold ``-0.0``, so that adding zero changes nothing, and which are never negative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.arithmetic import limits_of, wide
from onnx_passes.graph.constants import constant, finite_constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import is_integral
from onnx_passes.graph.traits import operators

SignRule = Callable[[ir.Node, int], bool]
"""Tells whether results of a node never have a sign; the number says how many nodes before it may be asked."""
POSITIVE_ZEROS: Interface[SignRule] = Interface("positive_zeros", "whether its zeros are never negative")
NEVER_NEGATIVE: Interface[SignRule] = Interface(
    "never_negative", "whether the integers that it gives are never negative"
)

_FAR = 8
"""So many nodes are followed back."""
_SURELY = 1e-6
"""What is larger than that part of its summands is not zero, however it was rounded."""
_MOVING = tuple(name for name in operators("movement") if name not in ("Concat", "Pad"))
"""Operators that give elements of their first input, and zeros at most."""


def has_positive_zeros(value: ir.Value | None, far: int = _FAR) -> bool:
    """Tell whether a value is known never to hold ``-0.0``."""
    if value is None or is_integral(value):
        return value is not None
    array = constant(value)
    if array is not None:
        return array.dtype != object and not bool((np.signbit(array.astype(np.float64)) & (array == 0)).any())
    node = value.producer()
    rule = None if node is None or far == 0 else POSITIVE_ZEROS.get(node)
    return rule is not None and node is not None and rule(node, far - 1)


def is_never_negative(value: ir.Value | None, far: int = _FAR) -> bool:
    """Tell whether a value holds integers that are known never to be negative."""
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
    """Say that results are some of these inputs, or zeros that are positive."""
    return lambda node, far: all(has_positive_zeros(argument(node, place), far) for place in places)


def _all(node: ir.Node, far: int) -> bool:
    return all(has_positive_zeros(value, far) for value in node.inputs)


def _any(node: ir.Node, far: int) -> bool:
    # Only a sum of negative zeros is one: what cancels out is positive.
    return any(has_positive_zeros(value, far) for value in node.inputs)


def _of_integers(node: ir.Node, _: int) -> bool:
    return is_integral(node.inputs[0])


def _biased(node: ir.Node, _: int) -> bool:
    """Tell whether something that is surely not zero is added to each sum."""
    bias, beta = constant(argument(node, 2)), node.attributes.get_float("beta", 1.0)
    return bias is not None and bool((np.abs(wide(bias) * beta) >= float(limits_of(bias).smallest_normal)).all())


def _shifted(node: ir.Node, _: int) -> bool:
    """Tell whether a batch normalization that is a product and a sum adds something that is surely not zero."""
    arrays = [finite_constant(argument(node, place)) for place in (1, 2, 3, 4)]
    if node.attributes.get_int("training_mode", 0) or len(node.outputs) > 1 or any(array is None for array in arrays):
        return False
    scale, bias, mean, variance = (np.asarray(array) for array in arrays)
    with np.errstate(all="ignore"):
        moved = mean * scale / np.sqrt(variance + node.attributes.get_float("epsilon", 1e-5))
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
