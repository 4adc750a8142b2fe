"""MultiThreshold of our own: any shapes, any types, and steps of any height."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, Attribute, Call, Definition, Input, define
from onnx_passes.ops.multi_threshold import (
    FEW,
    FEW_COUNTED_SMALL,
    columns_of,
    comparable,
    count_given,
    known_shape,
    reached,
)
from onnx_passes.ops.quantizer import CountingThresholds
from onnx_passes.ops.step_functions import ADDED, Steps, add_up, count, look_up, search

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


@define
class WeightedMultiThreshold(CountingThresholds, Definition):
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
            total = total + np.where(reached(x, thresholds[..., n]), weights[..., n], nothing)
        return _shifted(total, attributes)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return self._build(op, call, fast=False)

    def fast(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of the operators that are fastest in ONNX Runtime."""
        return self._build(op, call, fast=True)

    def _build(self, op: Builder, call: Call, *, fast: bool) -> ir.Value:
        given, held, where = call.input(1), call.constant(1), name_of(call.node)
        assert given is not None
        amount = known_shape(given, held, where)[-1]
        weighted, weights = call.input(2), call.constant(2)
        x, dtype = comparable(op, call.x, given)
        kind = call.number(0).dtype if weighted is None else (weighted.dtype or ir.DataType.FLOAT).numpy()
        _require_countable(kind, amount if weighted is None else None, call, where)
        if weighted is None:
            weights = np.ones(1, kind)
        if held is None or weights is None:
            if weighted is None:
                shape = known_shape(given, None, where)
                return self._shift(op, call, count_given(op, x, given, dtype, shape, kind), kind)
            # Small integers are not added in every version; in a larger type they wrap around alike.
            inner = np.dtype(np.int32) if kind.kind in "iu" and kind.itemsize < 4 else kind
            each = columns_of(op, weighted, ir.DataType.from_numpy(inner), amount, shared=True, where=where)
            total = self._shift(op, call, add_up(op, x, columns_of(op, given, dtype, amount), each, inner), inner)
            return total if inner == kind else op.Cast(total, to=ir.DataType.from_numpy(kind))
        held, weights = held.astype(dtype.numpy()), np.broadcast_to(weights, held.shape)
        if kind.name in ADDED and amount <= (FEW_COUNTED_SMALL if fast and weighted is None else FEW):
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


def _sums(thresholds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums of the weights of reached thresholds, by the number of them, in the given order."""
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
