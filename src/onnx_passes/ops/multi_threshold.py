"""MultiThreshold, which counts the thresholds that a value has reached, and helpers of operators like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, QONNX_DOMAINS, Attribute, Call, Definition, Input, define
from onnx_passes.ops.quantizer import CountingThresholds
from onnx_passes.ops.step_functions import ADDED, Steps, can_count_by_search, count, count_by_search, look_up, search

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder


FEW = 16
"""Up to so many thresholds are compared with one by one, rather than searched."""
FEW_COUNTED_SMALL = 32


def known_shape(given: ir.Value, held: np.ndarray | None, where: str, axes: int | None = None) -> tuple[int, ...]:
    """Return the shape of thresholds, which has to be known, and to have so many axes."""
    shape = static_shape(given) if held is None else held.shape
    if shape is None:
        raise ModelError("the number of thresholds has to be known", where=where, hint="infer shapes first")
    if not shape or 0 in shape or axes not in (None, len(shape)):
        wanted = "the shape [C, N], or [1, N]" if axes else "at least one axis"
        raise ModelError(f"thresholds need {wanted}, with no axis of length 0, not {list(shape)}", where=where)
    return shape


def count_given(
    op: Builder, x: ir.Value, given: ir.Value, dtype: ir.DataType, shape: tuple[int, ...], kind: np.dtype[Any]
) -> ir.Value:
    """Count thresholds that are not constant, of which the shape is known, or another one to see them in."""
    if shape[-1] > FEW and can_count_by_search(op, dtype.numpy()):
        typed = given if given.dtype in (None, dtype) else op.Cast(given, to=dtype)
        steps = Steps(np.zeros(shape, dtype.numpy()), np.zeros(shape[-1] + 1))
        counted = count_by_search(op, x, typed, steps)
        return counted if kind == np.float32 else op.Cast(counted, to=ir.DataType.from_numpy(kind))
    one = np.array(shape[:-1], np.int64)
    return count(op, x, [op.Reshape(column, one) for column in columns_of(op, given, dtype, shape[-1])], kind)


def columns_of(
    op: Builder, given: ir.Value, dtype: ir.DataType, amount: int, *, shared: bool = False, where: str = ""
) -> list[ir.Value]:
    """Take thresholds, or weights, apart along the last axis; where one is shared by all it comes as often."""
    is_shared = shared and known_shape(given, None, where)[-1] == 1
    if given.dtype not in (None, dtype):
        given = op.Cast(given, to=dtype)
    if is_shared:
        return [op.Gather(given, np.array(0), axis=-1)] * amount
    return [op.Gather(given, np.array(n), axis=-1) for n in range(amount)]


def comparable(op: Builder, x: ir.Value, given: ir.Value) -> tuple[ir.Value, ir.DataType]:
    """Return x in the type in which it is compared with thresholds, and that type."""
    dtype = x.dtype or given.dtype or ir.DataType.FLOAT
    common = dtype if given.dtype is None else _common(dtype.numpy(), given.dtype.numpy())
    return (x if common == dtype else op.Cast(x, to=common)), common


def _common(x: np.dtype[Any], thresholds: np.dtype[Any]) -> ir.DataType:
    return ir.DataType.from_numpy(np.promote_types(x, thresholds))


def reached(x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Compare in the type that values and thresholds have in common."""
    dtype = np.promote_types(x.dtype, thresholds.dtype)
    with np.errstate(invalid="ignore"):
        return x.astype(dtype, copy=False) >= thresholds.astype(dtype, copy=False)


_USUAL_LAYOUTS = {2: "NC", 3: "NWC", 4: "NCHW"}


@define
class MultiThreshold(CountingThresholds, Definition):
    """Count the thresholds that a value has reached: ``out_scale * #{n: x >= thresholds[c, n]} + out_bias``.

    Thresholds are given for each channel, or once for all, in any order. NaN reaches none, and none is reached that is
    NaN. The channels are the axis ``C`` of the layout: the last one where the layout ends with it. Without a layout
    that of two axes is NC, of three NWC, of four NCHW; of others the channels are axis 1.
    """

    name = "MultiThreshold"
    domains = QONNX_DOMAINS
    inputs = (Input("x", "the values"), Input("thresholds", "of shape [C, N], or [1, N] for all channels alike"))
    attributes = (
        Attribute("out_dtype", "string", "the data type of the result, for tools that follow", default="FLOAT32"),
        Attribute("out_scale", "float", "what the count is multiplied with", default=1.0),
        Attribute("out_bias", "float", "what is added then", default=0.0),
        Attribute("data_layout", "string", "the axes of x, such as NCHW or NHWC", default=""),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        x, thresholds = inputs
        _require_float(ir.DataType.from_numpy(x.dtype), None)
        channels, amount = thresholds.shape
        axis = channel_axis(attributes["data_layout"], x.ndim)
        if channels != 1:
            _require_channels(channels, x.shape[axis] if axis < x.ndim else None, None)
        thresholds = thresholds.reshape(*_shape(channels, x.ndim - axis - 1), amount)
        counted = np.zeros(x.shape, np.int32)
        for step in np.moveaxis(thresholds, -1, 0):
            counted += reached(x, step)
        return self._scaled(counted.astype(x.dtype), attributes)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return self._build(op, call, fast=False)

    def fast(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of the operators that are fastest in ONNX Runtime."""
        return self._build(op, call, fast=True)

    def _build(self, op: Builder, call: Call, *, fast: bool) -> ir.Value:
        given, held, where = call.input(1), call.constant(1), name_of(call.node)
        assert given is not None
        channels, amount = known_shape(given, held, where, axes=2)
        shape = _shape(channels, _axes_behind_channels(call, channels))
        x, dtype = comparable(op, call.x, given)
        result = call.number(0).dtype
        _require_float(ir.DataType.from_numpy(result), where)
        if held is None:
            return self._scale(op, call, count_given(op, x, given, dtype, (*shape, amount), result))
        held = held.astype(dtype.numpy()).reshape(*shape, amount)
        if result.name in ADDED and amount <= (FEW_COUNTED_SMALL if fast else FEW):
            return self._scale(op, call, count(op, x, list(np.moveaxis(held, -1, 0)), result, small=fast))
        steps = Steps.of(held, self._scaled(np.arange(amount + 1).astype(result), call))
        return look_up(op, x, steps) if fast else search(op, x, steps)

    def _scale(self, op: Builder, call: Call, counted: ir.Value) -> ir.Value:
        scale, bias = call["out_scale"], call["out_bias"]
        if scale != 1:
            counted = op.Mul(counted, call.number(scale))
        # Only a negative scale makes a negative zero, of which adding zero makes a positive one.
        if bias != 0 or scale < 0:
            counted = op.Add(counted, call.number(bias))
        return counted

    @staticmethod
    def _scaled(counted: np.ndarray, attributes: Mapping[str, Any] | Call) -> np.ndarray:
        number = counted.dtype.type
        with np.errstate(over="ignore", invalid="ignore"):
            return number(attributes["out_scale"]) * counted + number(attributes["out_bias"])


def channel_axis(layout: str, axes: int) -> int:
    """Return which axis of x the rows of thresholds belong to."""
    layout = layout or _USUAL_LAYOUTS.get(axes, "")
    if layout.endswith("C"):
        return max(axes - 1, 0)
    return layout.index("C") if "C" in layout else 1


def _shape(channels: int, behind: int) -> tuple[int, ...]:
    """Return the shape in which one threshold of each channel broadcasts against x."""
    return () if channels == 1 else (channels, *(1,) * behind)


def _axes_behind_channels(call: Call, channels: int) -> int:
    if channels == 1:
        return 0
    axes, where = rank(call.x), name_of(call.node)
    if axes is None:
        axes = len(call["data_layout"])
        if not axes:
            raise ModelError(
                "the number of axes of x is not known, so neither is that of its channels",
                where=where,
                hint="infer shapes first, or give data_layout",
            )
    axis = channel_axis(call["data_layout"], axes)
    _require_channels(channels, dimension(call.x, axis) if axis < axes else None, where, known=axis < axes)
    return axes - axis - 1


def _require_channels(channels: int, found: int | None, where: str | None, *, known: bool = False) -> None:
    if found != channels and not (found is None and known):
        axis = "no such axis" if found is None else f"{found} channels"
        raise ModelError(f"there are thresholds for {channels} channels, but x has {axis}", where=where)


def _require_float(dtype: ir.DataType, where: str | None) -> None:
    if not dtype.is_floating_point():
        raise ModelError(
            f"MultiThreshold of QONNX is for floats, but x is {dtype.name}",
            where=where,
            hint=f"MultiThreshold of the domain {OUR_DOMAIN} takes integers",
        )
