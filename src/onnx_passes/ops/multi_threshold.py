"""MultiThreshold: count the thresholds that a value has reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, QONNX_DOMAINS, Attribute, Call, Definition, Input, define
from onnx_passes.ops.quantizing import CountingThresholds
from onnx_passes.ops.step_functions import ADDED, Steps, count, look_up, search
from onnx_passes.ops.thresholds import FEW, FEW_COUNTED_SMALL, comparable, count_given, known_shape, reached

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

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
        """Build the result of whatever operators ONNX Runtime is fastest with."""
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
