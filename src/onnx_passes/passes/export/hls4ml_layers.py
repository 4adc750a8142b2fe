"""Layers in the form of hls4ml: fixed-point weights, then one scale and shift, then nonlinear operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, finite_constant, holds_only
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.numbers.grid import along, shrink
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.passes.export.affine import Affine
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_LAYER = "layer of fixed-point weights"
_NOT_FIXED = "its weights are not integers times one scale for each channel"
_NOT_FLOAT = "it is not computed in float32"
_NO_BIAS = "its bias is not a finite constant"
_SCALE = "scale and shift in one"
_BATCH = 2
_NO_BATCH = "it has no batch axis, or its rank is unknown"
_HOISTED = "scale in front"
_POWER = "power of two behind a quantizer"
_PRODUCTS = {("", "MatMul"), (CHANNELS_LAST_DOMAIN, "Conv")}
_OF_POSITIVE = {("", "Relu"), ("", "LeakyRelu"), (CHANNELS_LAST_DOMAIN, "MaxPool")}
"""Operators that commute with a positive factor per channel."""
_MOVING = {("", "Flatten"), ("", "Reshape"), ("", "Transpose")}


def hoist_scales(editor: Editor) -> None:
    """Move positive factors before Relu and similar operators, to the scale of a layer."""
    waiting = list(editor.graph)
    while waiting and not editor.stopped:
        node = waiting.pop()
        found = Affine.of(node) if node.graph is not None else None
        source = None if found is None else found.x.producer()
        if found is None or source is None or not _may_hoist(found, source):
            continue
        x = source.inputs[0]
        assert x is not None
        with editor.rewrite(_HOISTED, node, matched=(source, *found.nodes)) as r:
            factor = r.op.Mul(x, found.scale.astype(np.float32))
            copy_type_and_shape(x, factor)
            made = r.op.like(source, [factor, *source.inputs[1:]])
            copy_type_and_shape(found.result, made)
            r.replace(found.result, made)
        if r.applied:
            waiting.append(factor.producer())


def _may_hoist(found: Affine, source: ir.Node) -> bool:
    operator = (source.domain, source.op_type)
    if found.has_shift or not (found.scale > 0).all() or is_used_elsewhere(found.x) or len(source.outputs) > 1:
        return False
    fits = found.along_last() is not None if operator in _OF_POSITIVE else found.scale.size == 1
    return operator in _OF_POSITIVE | _MOVING and fits and _meets_scale(source.inputs[0])


def _meets_scale(value: ir.Value | None) -> bool:
    """Return whether a hoisted factor would merge with a product or factor without other consumers."""
    while value is not None and not is_used_elsewhere(value):
        node = value.producer()
        if node is None:
            return False
        operator = (node.domain, node.op_type)
        if operator in _PRODUCTS or Affine.of(node) is not None:
            return True
        if operator not in _OF_POSITIVE | _MOVING:
            return False
        value = node.inputs[0]
    return False


def keep_powers_of_two(editor: Editor) -> None:
    """Give quantizers power-of-two scales, which the layers after them absorb at no cost."""
    for node in tuple(editor.graph):
        found = _power_of_two(node)
        if found is None or editor.stopped:
            continue
        result, factor = node.outputs[0], found.scale.astype(np.float32).reshape(())
        with editor.rewrite(_POWER, node, matched=(*found.nodes, node)) as r:
            quantized = r.op.like(node, [found.x, 1 / factor, *node.inputs[2:]])
            copy_type_and_shape(result, quantized)
            made = r.op.Mul(quantized, factor)
            copy_type_and_shape(result, made)
            r.replace(result, made)


def _power_of_two(node: ir.Node) -> Affine | None:
    """Return the power of two before an integer quantizer that its layers could apply after it, if any."""
    if (node.domain, node.op_type) != (GENERAL, "Quant") or not holds_only(node.inputs[1], 1):
        return None
    x = node.inputs[0]
    source = None if x is None or is_used_elsewhere(x) else x.producer()
    found = None if source is None else Affine.of(source)
    if found is None or found.has_shift or found.scale.size > 1 or not holds_only(node.inputs[2], 0):
        return None
    return found if np.frexp(found.scale.item())[0] == 0.5 and _feeds_layers(node.outputs[0]) else None


def _feeds_layers(value: ir.Value) -> bool:
    """Return whether only products read a value, directly or after movement."""
    return not value.is_graph_output() and all(
        (node.domain, node.op_type) in _PRODUCTS
        if (node.domain, node.op_type) not in _MOVING
        else _feeds_layers(node.outputs[0])
        for node in value.consumers()
    )


def write_layers(editor: Editor, ranges: Mapping[ir.Value, Range]) -> None:
    """Convert products with their scales and shifts, then the scales and shifts after other operators."""
    ends = [found for node in editor.graph if (found := Affine.of(node)) is not None and _is_last(found)]
    following = {found.x: found for found in ends if not is_used_elsewhere(found.x)}
    for node in tuple(editor.graph):
        if (node.domain, node.op_type) in _PRODUCTS and not editor.stopped:
            _write_product(editor, node, following.get(node.outputs[0]), ranges)
    for found in ends:
        # A product may have absorbed some of them.
        last = found.nodes[-1]
        # Their input may have been replaced with the product.
        current = Affine.of(last) if last.graph is not None and not editor.stopped else None
        if current is not None:
            _write_scale(editor, current)


def _is_last(found: Affine) -> bool:
    result = found.result
    return is_used_elsewhere(result) or not any(
        (user := Affine.of(node)) is not None and user.x is found.x for node in result.consumers()
    )


class _Weights(NamedTuple):
    """Weights as integers, and the scale per channel of the result."""

    integers: np.ndarray
    scale: np.ndarray


def _weights(node: ir.Node, ranges: Mapping[ir.Value, Range]) -> _Weights | None:
    value = node.inputs[1]
    known, shape = None if value is None else ranges.get(value), static_shape(value)
    if known is None or shape is None or not known.is_point:
        return None
    axis = 0 if node.op_type == "Conv" else len(shape) - 1
    grid = None if known.grid is None else known.grid.centred()
    if grid is None:
        held = FixedPointArray.of(np.broadcast_to(known.exact, shape))
        return None if held is None else _Weights(held.integers, np.full(shape[axis], 2.0**held.exponent))
    if len(shape) < 2 or any(size > 1 for place, size in enumerate(grid.scale.shape) if place != axis):
        return None
    integers = np.broadcast_to(grid.low, shape).astype(np.float64)
    return _Weights(integers, np.broadcast_to(grid.scale.reshape(-1), (shape[axis],)))


def _write_product(editor: Editor, node: ir.Node, following: Affine | None, ranges: Mapping[ir.Value, Range]) -> None:
    result, weights, length = node.outputs[0], _weights(node, ranges), rank(node.outputs[0])
    bias = finite_constant(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1)
    if result.dtype is not ir.DataType.FLOAT or weights is None or length is None or length < _BATCH or bias is None:
        missing = _NO_BIAS if bias is None else _NO_BATCH
        reason = _NOT_FLOAT if result.dtype is not ir.DataType.FLOAT else _NOT_FIXED if weights is None else missing
        editor.refuse(_LAYER, reason, node)
        return
    before = _before(node)
    scale, shift = (1.0, 0.0) if before is None else (before.scale.item(), before.shift.item())
    summed = weights.integers.sum(tuple(range(1, weights.integers.ndim)) if node.op_type == "Conv" else -2)
    factor, offset = scale * weights.scale, bias + shift * summed * weights.scale
    own = Affine(result, along(factor, length - 1, length), along(offset, length - 1, length), ())
    total = own if following is None else own.then(following.scale, following.shift, following.nodes)
    exponent = _exponent(total.scale)
    total = total._replace(scale=total.scale / 2.0**exponent)
    held = FixedPointArray(weights.integers, exponent)
    if before is None and held.is_written_in(node.inputs[1]) and _is_written(node, following, total):
        return
    last = result if following is None else following.result
    with editor.rewrite(_LAYER, last.producer() or node, matched=(node, *total.nodes)) as r:
        name = f"{node.name or node.op_type}_weights"
        inputs = [_data(r.op, node.inputs[0], before), held.quantizer(r.op, name)]
        if node.op_type == "Conv" and total.has_shift and not total.has_scale:
            each = np.broadcast_to(total.shift.reshape(-1), weights.scale.shape)
            inputs.append(_shift(r.op, each, f"{node.name or node.op_type}_bias"))
            total = total._replace(shift=np.zeros_like(total.shift))
        made = r.op.like(node, inputs)
        copy_type_and_shape(result, made)
        r.replace(last, _written(r.op, total, made, last))


def _is_written(node: ir.Node, following: Affine | None, total: Affine) -> bool:
    """Return whether scale and shift after fixed-point weights are in their final form."""
    if following is None:
        return not total.has_scale
    return _is_single(following) and (total.has_scale or node.op_type != "Conv")


def _before(node: ir.Node) -> Affine | None:
    """Return the single scale and shift before a product, also before movement; None if there is none."""
    value = node.inputs[0]
    while value is not None and (source := value.producer()) is not None:
        found = Affine.of(source)
        if found is not None:
            is_one = found.scale.size == found.shift.size == 1
            return found if is_one and not (found.has_shift and any(node.attributes.get_ints("pads") or ())) else None
        if (source.domain, source.op_type) not in _MOVING:
            return None
        value = source.inputs[0]
    return None


def _data(op: Builder, value: ir.Value | None, before: Affine | None) -> ir.Value | None:
    """Build the input of a product without the scale and shift before it."""
    source = None if value is None else value.producer()
    if value is None or before is None or source is None:
        return value
    if value is before.result:
        return before.x
    made = op.like(source, [_data(op, source.inputs[0], before), *source.inputs[1:]])
    copy_type_and_shape(value, made)
    return made


def _exponent(scale: np.ndarray) -> int:
    """Return the exponent of the power of two that leaves the largest factor between one and two."""
    largest = float(np.abs(scale).max(initial=0))
    return 0 if largest == 0 else int(np.frexp(largest)[1]) - 1


def _shift(op: Builder, shift: np.ndarray, name: str) -> ir.Value:
    """Build a shift, as fixed-point numbers if few bits suffice."""
    held = FixedPointArray.of(shift.astype(np.float32))
    return op.initializer(shift.astype(np.float32), name) if held is None else held.quantizer(op, name)


def _write_scale(editor: Editor, found: Affine) -> None:
    if _is_single(found):
        return
    with editor.rewrite(_SCALE, found.nodes[-1], matched=found.nodes) as r:
        if found.scale.ndim < _BATCH:
            r.refuse(_NO_BATCH, at=found.result)
        elif found.has_scale and found.has_shift and found.along_last() is None:
            r.refuse("scale or shift vary from pixel to pixel", at=found.result)
        else:
            r.replace(found.result, _written(r.op, found, found.x, found.result))


def _is_single(found: Affine) -> bool:
    """Return whether scale and shift are one operator in hls4ml's form: with bits, and without a batch axis."""
    node = found.nodes[0]
    if len(found.nodes) > 1 or node.op_type in ("Div", "Sub"):
        return False
    held = [array for value in node.inputs if (array := constant(value)) is not None]
    if node.op_type == "Add" and any(FixedPointArray.of(array) is not None for array in held):
        return False
    return all(array.ndim < found.scale.ndim for array in held)


def _written(op: Builder, found: Affine, x: ir.Value, like: ir.Value) -> ir.Value:
    """Build one operator for scale and shift, as hls4ml gives two consecutive ones the same precision."""
    if not found.has_scale and not found.has_shift:
        return x
    if not found.has_scale:
        made = op.Add(x, _shift(op, _without_batch(found.shift), f"{like.name}_shift"))
    elif not found.has_shift:
        made = op.Mul(x, _without_batch(found.scale).astype(np.float32))
    else:
        parts = found.along_last()
        assert parts is not None
        scale, shift = (part.astype(np.float32) for part in parts)
        zeros, ones = np.zeros_like(scale), np.ones_like(scale)
        domain = "" if found.scale.ndim == 2 else CHANNELS_LAST_DOMAIN
        made = op.BatchNormalization(x, scale, shift, zeros, ones, epsilon=0.0, _domain=domain)
    copy_type_and_shape(like, made)
    return made


def _without_batch(array: np.ndarray) -> np.ndarray:
    """Drop axes that broadcasting adds, and the batch, which is one in hls4ml."""
    shrunk = shrink(array)
    return shrunk.reshape(
        shrunk.shape[next((axis for axis, size in enumerate(shrunk.shape) if size > 1), array.ndim) :]
    )


MOST_BITS = 16
"""Constants with more bits get the default precision of the tool chain."""
_MANTISSA = 53


@dataclass(frozen=True, eq=False)
class FixedPointArray:
    """``integers * 2**exponent``."""

    integers: np.ndarray
    exponent: int

    @classmethod
    def of(cls, array: np.ndarray) -> Self | None:
        """Return the fixed-point form with the largest exponent; None if it needs too many bits."""
        wide = np.asarray(array, np.float64)
        if not np.isfinite(wide).all():
            return None
        fractions, exponents = np.frexp(wide[wide != 0])
        mantissas = np.ldexp(fractions, _MANTISSA).astype(np.int64)
        # The lowest set bit is the largest possible shift of each number.
        shifts = np.frexp((mantissas & -mantissas).astype(np.float64))[1] - 1
        exponent = int((exponents - _MANTISSA + shifts).min(initial=2**31 - 1)) if mantissas.size else 0
        made = cls(np.ldexp(wide, -exponent), exponent)
        return made if made.bits <= MOST_BITS else None

    @property
    def signed(self) -> bool:
        """Return whether there are negative numbers."""
        return bool((self.integers < 0).any())

    @property
    def bits(self) -> int:
        """Return the least number of bits that hold the integers; a single signed bit would mean -1 or 1."""
        low, high = self.integers.min(initial=0), self.integers.max(initial=0)
        return max(int(max(-low - 1, high)).bit_length() + self.signed, 1 + self.signed)

    @property
    def array(self) -> np.ndarray:
        """Return the numbers."""
        return np.ldexp(self.integers, self.exponent).astype(np.float32)

    def quantizer(self, op: Builder, name: str) -> ir.Value:
        """Build a quantizer that keeps the numbers, and states the number of bits."""
        parameters = {"scale": 2.0**self.exponent, "zero_point": 0, "bits": self.bits}
        made = op.Quant(
            (held := op.initializer(self.array, name)),
            *(op.initializer(np.array(part, np.float32), f"{name}_{word}") for word, part in parameters.items()),
            signed=int(self.signed),
            narrow=0,
            rounding_mode="ROUND",
            _domain=GENERAL,
        )
        copy_type_and_shape(held, made)
        return made

    def is_written_in(self, value: ir.Value | None) -> bool:
        """Return whether a value is this quantizer already."""
        node = None if value is None else value.producer()
        if node is None or (node.domain, node.op_type) != (GENERAL, "Quant"):
            return False
        held = [constant(each) for each in node.inputs]
        wanted = (self.array, 2.0**self.exponent, 0, self.bits)
        return node.attributes.get_int("signed", 1) == self.signed and all(
            have is not None and np.array_equal(have, want) for have, want in zip(held, wanted, strict=True)
        )
