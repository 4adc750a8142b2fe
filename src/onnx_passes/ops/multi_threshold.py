"""MultiThreshold: count the thresholds that a value has reached, or add up their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN, Attribute, Call, Definition, Input
from onnx_passes.ops.step_functions import ADDED, Steps, add_up, count, look_up, search

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder

_FEW = 16
"""Up to so many thresholds are compared with one by one, rather than searched."""
_FEW_COUNTED_SMALL = 32
_USUAL_LAYOUTS = {2: "NC", 3: "NWC", 4: "NCHW"}


class MultiThreshold(Definition):
    """Count the thresholds that a value has reached: ``out_scale * #{n: x >= thresholds[c, n]} + out_bias``.

    Thresholds are given for each channel, or once for all, in any order. NaN reaches none, and none is reached that is
    NaN. The channels are the axis ``C`` of the layout: the last one where the layout ends with it. Without a layout
    that of two axes is NC, of three NWC, of four NCHW; of others the channels are axis 1.
    """

    name = "MultiThreshold"
    domains = tuple(domain for domain in GENERAL_DOMAINS if domain != OUR_DOMAIN)
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
        axis = _channel_axis(attributes["data_layout"], x.ndim)
        if channels != 1:
            _require_channels(channels, x.shape[axis] if axis < x.ndim else None, None)
        thresholds = thresholds.reshape(*_shape(channels, x.ndim - axis - 1), amount)
        counted = np.zeros(x.shape, np.int32)
        for step in np.moveaxis(thresholds, -1, 0):
            counted += _reached(x, step)
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
        channels, amount = _known_shape(given, held, where, axes=2)
        shape = _shape(channels, _axes_behind_channels(call, channels))
        x, dtype = _comparable(op, call.x, given)
        result = call.number(0).dtype
        _require_float(ir.DataType.from_numpy(result), where)
        if held is None:
            columns = [op.Reshape(column, np.array(shape, np.int64)) for column in _columns(op, given, dtype, amount)]
            return self._scale(op, call, count(op, x, columns, result))
        held = held.astype(dtype.numpy()).reshape(*shape, amount)
        if result.name in ADDED and amount <= (_FEW_COUNTED_SMALL if fast else _FEW):
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


class WeightedMultiThreshold(Definition):
    """Add up the weights of the thresholds that a value has reached, for values and thresholds of any shape.

    ``y = sum(weights[..., n] where x >= thresholds[..., n]) + out_bias``. The last axis of the thresholds counts them;
    the other axes broadcast against x, and the result has the shape that they and x have together. Weights broadcast
    against the thresholds; where they are left out each is one. Negative weights are steps down, so that thresholds
    stand for any function of finitely many steps.

    The result has the type of the weights or, without them, of x: integers count as well. Weights are added in the
    order in which they are given, in that type. NaN reaches no threshold, and none is reached that is NaN.
    """

    name = "MultiThreshold"
    domains = (OUR_DOMAIN,)
    inputs = (
        Input("x", "the values"),
        Input("thresholds", "of shape S + [N], where S broadcasts against x"),
        Input("weights", "the steps at the thresholds, which broadcast against them", optional=True),
    )
    attributes = (Attribute("out_bias", "float", "what is added to the sum", default=0.0),)

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        x, thresholds = inputs[:2]
        weights = inputs[2] if len(inputs) > 2 else np.ones(1, x.dtype)
        _require_countable(weights.dtype, None if len(inputs) > 2 else thresholds.shape[-1], attributes, None)
        weights = np.broadcast_to(weights, thresholds.shape)
        total = np.zeros(np.broadcast_shapes(x.shape, thresholds.shape[:-1]), weights.dtype)
        nothing = np.zeros((), weights.dtype)
        for n in range(thresholds.shape[-1]):
            total = total + np.where(_reached(x, thresholds[..., n]), weights[..., n], nothing)
        return _shifted(total, attributes)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return self._build(op, call, fast=False)

    def fast(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of whatever operators ONNX Runtime is fastest with."""
        return self._build(op, call, fast=True)

    def _build(self, op: Builder, call: Call, *, fast: bool) -> ir.Value:
        given, held, where = call.input(1), call.constant(1), name_of(call.node)
        assert given is not None
        amount = _known_shape(given, held, where)[-1]
        weighted, weights = call.input(2), call.constant(2)
        x, dtype = _comparable(op, call.x, given)
        kind = call.number(0).dtype if weighted is None else (weighted.dtype or ir.DataType.FLOAT).numpy()
        _require_countable(kind, amount if weighted is None else None, call, where)
        if weighted is None:
            weights = np.ones(1, kind)
        if held is None or weights is None:
            columns = _columns(op, given, dtype, amount)
            if weighted is None:
                return self._shift(op, call, count(op, x, columns, kind), kind)
            each = _columns(op, weighted, ir.DataType.from_numpy(kind), amount, shared=True, where=where)
            return self._shift(op, call, add_up(op, x, columns, each, kind), kind)
        held, weights = held.astype(dtype.numpy()), np.broadcast_to(weights, held.shape)
        if kind.name in ADDED and amount <= (_FEW_COUNTED_SMALL if fast and weighted is None else _FEW):
            columns = list(np.moveaxis(held, -1, 0))
            if weighted is None:
                return self._shift(op, call, count(op, x, columns, kind, small=fast), kind)
            return self._shift(op, call, add_up(op, x, columns, list(np.moveaxis(weights, -1, 0)), kind), kind)
        steps = Steps.of(held, _shifted(_sums(held, weights), call))
        return look_up(op, x, steps) if fast else search(op, x, steps)

    def _shift(self, op: Builder, call: Call, total: ir.Value, kind: np.dtype[Any]) -> ir.Value:
        return op.Add(total, np.array(call["out_bias"], kind)) if call["out_bias"] else total

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer the type of the weights or of x, and the shape that x and all but the last axis of thresholds have."""
        from onnx_shape_inference import broadcast_shapes

        x, thresholds, *weights = node.inputs
        typed = weights[0] if weights and weights[0] is not None else x
        if x is None or thresholds is None or typed is None:
            return
        shape = None if thresholds.shape is None else ir.Shape(list(thresholds.shape)[:-1])
        together = None if x.shape is None or shape is None else broadcast_shapes(x.shape, shape)
        ctx.set_shape_and_dtype(node.outputs[0], together, typed.dtype)


def _channel_axis(layout: str, axes: int) -> int:
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
    axis = _channel_axis(call["data_layout"], axes)
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


def _require_countable(
    kind: np.dtype[Any], amount: int | None, attributes: Mapping[str, Any] | Call, where: str | None
) -> None:
    """Refuse a type of results that cannot hold the count, if there is one, or the bias."""
    if kind.kind not in "iu":
        return
    bias = attributes["out_bias"]
    if amount is not None and amount > np.iinfo(kind).max:
        raise ModelError(
            f"{kind} cannot count {amount} thresholds", where=where, hint="give weights of the type that you want"
        )
    if bias != int(bias):
        raise ModelError(f"out_bias is {bias}, which {kind} cannot hold", where=where)


def _known_shape(given: ir.Value, held: np.ndarray | None, where: str, axes: int | None = None) -> tuple[int, ...]:
    """Return the shape of thresholds, which has to be known, and to have so many axes."""
    shape = static_shape(given) if held is None else held.shape
    if shape is None:
        raise ModelError("the number of thresholds has to be known", where=where, hint="infer shapes first")
    if not shape or 0 in shape or axes not in (None, len(shape)):
        wanted = "the shape [C, N], or [1, N]" if axes else "at least one axis"
        raise ModelError(f"thresholds need {wanted}, with no axis of length 0, not {list(shape)}", where=where)
    return shape


def _columns(
    op: Builder, given: ir.Value, dtype: ir.DataType, amount: int, *, shared: bool = False, where: str = ""
) -> list[ir.Value]:
    """Take thresholds, or weights, apart along the last axis; where one is shared by all it comes as often."""
    if given.dtype not in (None, dtype):
        given = op.Cast(given, to=dtype)
    if shared and _known_shape(given, None, where)[-1] == 1:
        return [op.Gather(given, np.array(0), axis=-1)] * amount
    return [op.Gather(given, np.array(n), axis=-1) for n in range(amount)]


def _comparable(op: Builder, x: ir.Value, given: ir.Value) -> tuple[ir.Value, ir.DataType]:
    """Return x in the type in which it is compared with thresholds, and that type."""
    dtype = x.dtype or given.dtype or ir.DataType.FLOAT
    common = dtype if given.dtype is None else _common(dtype.numpy(), given.dtype.numpy())
    return (x if common == dtype else op.Cast(x, to=common)), common


def _common(x: np.dtype[Any], thresholds: np.dtype[Any]) -> ir.DataType:
    return ir.DataType.from_numpy(np.promote_types(x, thresholds))


def _reached(x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    dtype = np.promote_types(x.dtype, thresholds.dtype)
    with np.errstate(invalid="ignore"):
        return x.astype(dtype, copy=False) >= thresholds.astype(dtype, copy=False)


def _sums(thresholds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return what the weights of reached thresholds sum up to, by the number of them, added as they are given."""
    none = np.zeros((*thresholds.shape[:-1], 1), weights.dtype)
    if (thresholds[..., 1:] >= thresholds[..., :-1]).all():
        return np.cumsum(np.concatenate([none, weights], axis=-1), axis=-1, dtype=weights.dtype)
    points = np.sort(thresholds, axis=-1)
    total = np.zeros(thresholds.shape, weights.dtype)
    for n in range(thresholds.shape[-1]):
        one = slice(n, n + 1)
        total = total + np.where(points >= thresholds[..., one], weights[..., one], none)
    return np.concatenate([none, total], axis=-1)


def _shifted(total: np.ndarray, attributes: Mapping[str, Any] | Call) -> np.ndarray:
    return total + np.array(attributes["out_bias"], total.dtype)
