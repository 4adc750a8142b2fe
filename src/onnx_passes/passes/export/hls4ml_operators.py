"""Lower operators that hls4ml lacks to supported ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, reduced_axes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, finite_constant, is_constant
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_TRUNC = 5
"""Number of parameters of Trunc in its second version."""
_IMAGES = (3, 4)
"""Ranks of images for which hls4ml has convolutions."""
Ranges = Mapping[ir.Value, Range]
Lowering = Callable[[Builder, ir.Node, Ranges], "ir.Value | str"]
"""Builds the result of a node with operators of hls4ml, or returns the reason why it cannot."""
LOWERINGS: Interface[Lowering] = Interface("hls4ml_form", "its equivalent in operators of hls4ml")

_NOT_CONSTANT = "its bounds are not finite constants"
_NO_PIXELS = "it is not over all pixels of images of known size, channels last"


def lower_operators(editor: Editor, ranges: Ranges) -> None:
    """Lower operators with an entry in the table.

    The last nodes are lowered first, so that the ranges of their inputs are still known.
    """
    for node in reversed(tuple(editor.graph)):
        lowering = LOWERINGS.get(node)
        if lowering is None or editor.stopped:
            continue
        with editor.rewrite(f"{node.op_type} in other operators", node) as r:
            made = lowering(r.op, node, ranges)
            if isinstance(made, str):
                r.refuse(made, at=node)
            else:
                r.replace(node.outputs[0], made)


def _extreme(op: Builder, node: ir.Node, ranges: Ranges) -> ir.Value | str:
    """Lower the maximum of a value and a constant to a Relu between shifts; the minimum with both negated."""
    x = next((value for value in node.inputs if not is_constant(value)), None)
    bounds = [finite_constant(value) for value in node.inputs if value is not x]
    if x is None or len(bounds) != 1 or bounds[0] is None:
        return _NOT_CONSTANT
    return _bounded(op, x, bounds[0], largest=node.op_type == "Min")


def _clip(op: Builder, node: ir.Node, ranges: Ranges) -> ir.Value | str:
    made = node.inputs[0]
    for index, largest in ((1, False), (2, True)):
        value = argument(node, index)
        bound = None if value is None else finite_constant(value)
        if made is None or (value is not None and bound is None):
            return _NOT_CONSTANT
        made = made if bound is None else _bounded(op, made, bound, largest=largest)
    return made


def _bounded(op: Builder, x: ir.Value, bound: np.ndarray, *, largest: bool) -> ir.Value:
    held = bound.astype(np.float32)
    if not bound.any() and not largest:
        return _like(x, op.Relu(x))
    if largest:
        inner = _like(x, op.Sub(held, x))
        return _like(x, op.Sub(held, _like(x, op.Relu(inner))))
    inner = _like(x, op.Sub(x, held))
    return _like(x, op.Add(_like(x, op.Relu(inner)), held))


def _like(x: ir.Value, made: ir.Value) -> ir.Value:
    copy_type_and_shape(x, made)
    return made


def _trunc(op: Builder, node: ir.Node, ranges: Ranges) -> ir.Value | str:
    """Lower Trunc to a Quant with the output scale, if floats hold its input exactly."""
    x, held = node.inputs[0], [constant(value) for value in node.inputs[1:]]
    known = None if x is None else ranges.get(x)
    if len(held) != _TRUNC or known is None or known.grid is None or any(array is None for array in held):
        return "its parameters are not constant, or the scale of its input is not known"
    scale, zero, _, outer, bits = (np.asarray(array) for array in held)
    if zero.any() or not all(map(_is_power_of_two, (known.grid.scale, scale, outer))):
        return "it has a zero point, or scales that are not powers of two"
    attributes = {
        "signed": node.attributes.get_int("signed", 1),
        "narrow": node.attributes.get_int("narrow", 0),
        "rounding_mode": node.attributes.get_string("rounding_mode", "FLOOR"),
    }
    made = op.Quant(x, outer, np.zeros((), np.float32), bits, **attributes, _domain=GENERAL)
    copy_type_and_shape(node.outputs[0], made)
    return made


def _is_power_of_two(array: np.ndarray) -> bool:
    return bool((np.frexp(array)[0] == 0.5).all())


def _bipolar(op: Builder, node: ir.Node, ranges: Ranges) -> ir.Value | str:
    """Lower signs to scaled and shifted bits, as hls4ml takes all weights of products of signs for ones.

    For integers, adding one makes non-negative ones at least one, and clipping gives one bit. Floats are rounded down
    before, as negative ones near zero would be lost.
    """
    x, scale = node.inputs[0], finite_constant(node.inputs[1])
    if x is None or scale is None or is_constant(x):
        return "its scale is not a finite constant, or its input is constant: run fold-constants first"
    known = ranges.get(x)
    if known is None or known.integer_grid is None:
        x = _rounded_down(op, x, bits=2, signed=1, narrow=1)
    bits = _rounded_down(op, _like(x, op.Add(x, np.ones((), np.float32))), bits=1, signed=0, narrow=0)
    doubled = _like(x, op.Mul(bits, (2 * scale).astype(np.float32)))
    return _like(x, op.Add(doubled, (-scale).astype(np.float32)))


def _rounded_down(op: Builder, x: ir.Value, *, bits: int, signed: int, narrow: int) -> ir.Value:
    parameters = [np.array(number, np.float32) for number in (1, 0, bits)]
    made = op.Quant(x, *parameters, signed=signed, narrow=narrow, rounding_mode="FLOOR", _domain=GENERAL)
    return _like(x, made)


def _reduction(op: Builder, node: ir.Node, ranges: Ranges) -> ir.Value | str:
    """Lower the sum or mean of all pixels to a depthwise convolution with ones, as hls4ml rounds means."""
    x, axes = node.inputs[0], reduced_axes(node)
    length = rank(x)
    if x is None or x.shape is None or axes is None or length not in _IMAGES:
        return _NO_PIXELS
    kernel, channels = [dimension(x, axis) for axis in range(1, length - 1)], dimension(x, -1)
    if None in kernel or channels is None or sorted(axis % length for axis in axes) != list(range(1, length - 1)):
        return _NO_PIXELS
    pooled, sizes = ir.Shape([x.shape[0], *[1] * len(kernel), channels]), [size or 0 for size in kernel]
    windows = _windows(sizes)
    made = _maxima(op, x, pooled, windows) if node.op_type == "ReduceMax" else _sums(op, x, pooled, windows)
    if node.op_type == "ReduceMean":
        made = _like(made, op.Mul(made, np.array(1 / math.prod(sizes), np.float32)))
    if not node.attributes.get_int("keepdims", 1):
        made = op.Flatten(made, axis=1)
        copy_type_and_shape(node.outputs[0], made)
    return made


def _average(op: Builder, node: ir.Node, ranges: Ranges) -> ir.Value | str:
    x, kernel, result = node.inputs[0], node.attributes.get_ints("kernel_shape"), node.outputs[0].shape
    if x is None or kernel is None or result is None or len(result) not in _IMAGES or dimension(x, -1) is None:
        return "its sizes are not known"
    padded = any(node.attributes.get_ints("pads") or ()) and not node.attributes.get_int("count_include_pad", 0)
    if padded or node.attributes.get_int("ceil_mode", 0):
        return "its averages exclude padding, or it has ceil_mode"
    given = {name: node.attributes[name] for name in ("strides", "pads", "dilations") if name in node.attributes}
    summed = _sums(op, x, result, _windows(kernel) | given)
    return _like(summed, op.Mul(summed, np.array(1 / math.prod(kernel), np.float32)))


def _windows(kernel: Sequence[int]) -> dict[str, Any]:
    ones = [1] * len(kernel)
    return {"kernel_shape": list(kernel), "strides": ones, "pads": [0] * 2 * len(kernel), "dilations": ones}


def _sums(op: Builder, x: ir.Value, result: ir.Shape, windows: Mapping[str, Any]) -> ir.Value:
    channels = result[-1]
    assert isinstance(channels, int)
    weights = op.initializer(np.ones((channels, *windows["kernel_shape"], 1), np.float32), "ones")
    made = op.Conv(x, weights, group=channels, _domain=CHANNELS_LAST_DOMAIN, **windows)
    made.type, made.shape = x.type, result.copy()
    return made


def _maxima(op: Builder, x: ir.Value, result: ir.Shape, windows: Mapping[str, Any]) -> ir.Value:
    made = op.MaxPool(x, **windows, ceil_mode=0, _domain=CHANNELS_LAST_DOMAIN)
    made.type, made.shape = x.type, result.copy()
    return made


LOWERINGS.attach(
    {
        "Clip": _clip,
        **dict.fromkeys(("Max", "Min"), _extreme),
        **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceSum"), _reduction),
    }
)
LOWERINGS.attach({"AveragePool": _average}, domains=(CHANNELS_LAST_DOMAIN,))
LOWERINGS.attach({"BipolarQuant": _bipolar, "Trunc": _trunc}, domains=(GENERAL,))
