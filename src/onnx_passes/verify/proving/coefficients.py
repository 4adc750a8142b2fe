"""Layers that constants were merged into: both sides are one product with weights and biases, which are compared.

Merging rounds every coefficient, and what comes before or behind a product rounds in other places: results are equal in
real numbers, but for coefficients that are off by their last digits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.facts.sums import weight_channels
from onnx_passes.ops.semantics.batch_normalization import Normalization
from onnx_passes.proofs.proof import Proof, Unproved

METHOD = "the same coefficients"
_UNIT = 2.0**-24
_CLOSE = 16 * _UNIT
_LEAST = 2.0**-126
_BLOCK = 2**15
"""Elements that are compared at a time, since they fit into the caches of processors."""


class NoLayerError(Exception):
    """A side is no product with constant weights, for a reason."""


@dataclass(frozen=True)
class _Layer:
    """A product with weights, and a bias for each channel; ``reach`` is the size of what a bias is made of."""

    kind: Hashable
    weights: np.ndarray
    bias: np.ndarray
    reach: np.ndarray
    channels: int
    axis: int
    terms: int
    roundings: int = 0

    def times(self, factor: np.ndarray) -> _Layer:
        shape = [1] * self.weights.ndim
        shape[self.channels] = -1
        weights = self.weights * factor.reshape(shape)
        reach = self.reach * np.abs(factor)
        return replace(self, weights=weights, bias=self.bias * factor, reach=reach, roundings=self.roundings + 1)

    def plus(self, number: np.ndarray) -> _Layer:
        reach = self.reach + np.abs(number)
        return replace(self, bias=self.bias + number, reach=reach, roundings=self.roundings + 1)


def prove_coefficients(old: Fragment, new: Fragment) -> Proof | Unproved:
    """Compare the coefficients of two sides that are one product each."""
    try:
        before, after = _layer(old), _layer(new)
    except NoLayerError as error:
        return Unproved(str(error))
    if before.kind != after.kind or before.weights.shape != after.weights.shape:
        return Unproved("both sides are other products")
    apart = max(_apart(before.weights, after.weights, before.weights), _apart(before.bias, after.bias, before.reach))
    if not apart <= _CLOSE:
        return Unproved(f"coefficients differ by {apart:.2g} of their size")
    lost = sum(_gamma(layer.terms + layer.roundings + 1) for layer in (before, after)) + apart
    said = (
        f"{before.weights.size:,} weights and {before.bias.size:,} biases agree to {apart:.1e} of their size",
        f"each result is off by at most {lost:.1e} of the sizes of all that is added up to it",
    )
    return Proof("equal-in-reals", METHOD, said)


def _apart(before: np.ndarray, after: np.ndarray, sizes: np.ndarray) -> float:
    """Return the greatest distance in parts of the size; NaN if there is one."""
    arrays = [array.reshape(-1) for array in (before, after, sizes)]
    parts = [[array[start : start + _BLOCK] for array in arrays] for start in range(0, before.size, _BLOCK)]
    return float(max((np.max(np.abs(a - b) / np.maximum(np.abs(c), _LEAST)) for a, b, c in parts), default=0.0))


def _gamma(roundings: int) -> float:
    return roundings * _UNIT / (1 - roundings * _UNIT)


def _layer(side: Fragment) -> _Layer:
    """Read a side: a product, and elementwise operators behind it that multiply and add constants."""
    layer: _Layer | None = None
    value = side.inputs[0] if len(side.inputs) == 1 else None
    for node in side.moving:
        dynamic = [given for given in node.inputs if side.is_dynamic(given)]
        if value is None or dynamic != [value] or len(node.outputs) > 1:
            raise NoLayerError("it is more than one chain of operators")
        layer = _product(node) if layer is None else _changed(layer, node, value)
        value = node.outputs[0]
    if layer is None or [value] != list(side.outputs):
        raise NoLayerError("it is no chain of operators from a product on")
    return layer


def _product(node: ir.Node) -> _Layer:
    weights = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    added = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    if node.domain or weights is None or weights.dtype != np.float32:
        raise NoLayerError(f"{node.op_type} is no product of float32 with constant weights")
    if len(node.inputs) > 2 and node.inputs[2] is not None and added is None:
        raise NoLayerError("its bias is computed")
    wide, given = weights.astype(np.float64), node.attributes
    if node.op_type in ("Conv", "ConvTranspose"):
        group = given.get_int("group", 1)
        if node.op_type == "ConvTranspose" and group > 1:
            raise NoLayerError("ConvTranspose is in groups")
        axes = weights.ndim - 2
        kind = (node.op_type, node.inputs[0], group, *_windows(node, axes))
        channels, axis = weight_channels(node) or 0, 1
        count = weights.shape[channels]
        bias = np.zeros(count) if added is None else added.astype(np.float64)
        terms = math.prod(weights.shape[1:]) if node.op_type == "Conv" else weights.size
        return _Layer(kind, wide, bias, np.abs(bias), channels, axis, terms)
    if node.op_type == "Gemm" and not given.get_int("transA", 0):
        wide = (wide.T if given.get_int("transB", 0) else wide) * float(np.float32(given.get_float("alpha", 1.0)))
        added = None if added is None else added * np.float64(np.float32(given.get_float("beta", 1.0)))
    elif node.op_type != "MatMul" or weights.ndim != 2:
        raise NoLayerError(f"{node.op_type} is no product with constant weights")
    count, length = wide.shape[1], rank(node.inputs[0])
    if length is None:
        raise NoLayerError("the number of axes is not known")
    bias = np.zeros(count) if added is None else _by_channel(added, count, 1, 2)
    return _Layer(("MatMul", node.inputs[0]), wide, bias, np.abs(bias), 1, length - 1, len(wide))


def _windows(node: ir.Node, axes: int) -> tuple[Hashable, ...]:
    given, ones = node.attributes, (1,) * axes
    named = (("strides", ones), ("pads", (0,) * (2 * axes)), ("dilations", ones), ("output_padding", (0,) * axes))
    shape = tuple(given.get_ints("output_shape") or ())
    return (
        *(tuple(given.get_ints(name) or usual) for name, usual in named),
        shape,
        given.get_string("auto_pad", "NOTSET"),
    )


def _changed(layer: _Layer, node: ir.Node, value: ir.Value) -> _Layer:
    if node.op_type == "Identity" and node.domain == "":
        return layer
    if node.op_type == "BatchNormalization" and node.domain == "" and not node.attributes.get_int("training_mode", 0):
        return _normalized(layer, node)
    place = 0 if node.inputs[0] is value else 1
    held = constant(node.inputs[1 - place]) if len(node.inputs) == 2 else None
    length = rank(value)
    if held is None or length is None or node.domain or held.dtype != np.float32:
        raise NoLayerError(f"{node.op_type} adds or multiplies no constant")
    number = _by_channel(held, len(layer.bias), layer.axis, length)
    match node.op_type:
        case "Mul":
            return layer.times(number)
        case "Div" if place == 0 and number.all():
            return layer.times(1 / number)
        case "Add":
            return layer.plus(number)
        case "Sub" if place == 0:
            return layer.plus(-number)
        case _:
            raise NoLayerError(f"{node.op_type} adds or multiplies no constant")


def _normalized(layer: _Layer, node: ir.Node) -> _Layer:
    normal = Normalization.of(node, [constant(value) for value in node.inputs[1:5]])
    if isinstance(normal, str) or layer.axis != 1:
        raise NoLayerError(normal if isinstance(normal, str) else "another axis than that of channels is normalized")
    found = layer.plus(-normal.mean.near).times(normal.factor.near).plus(normal.shift.near)
    return replace(found, roundings=found.roundings + 3)


def _by_channel(array: np.ndarray, count: int, axis: int, length: int) -> np.ndarray:
    """Return a number for each channel from what is broadcast against a result."""
    if array.ndim > length:
        raise NoLayerError("a constant has a higher rank")
    spread = array.reshape((1,) * (length - array.ndim) + array.shape)
    if any(size > 1 for each, size in enumerate(spread.shape) if each != axis) or spread.size not in (1, count):
        raise NoLayerError("a constant varies along another axis than that of the channels")
    return np.broadcast_to(spread.reshape(-1).astype(np.float64), (count,))
