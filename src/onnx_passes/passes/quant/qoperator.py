"""Decompose integer operators: dequantize their inputs, quantize their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.quant.linear import argument, not_constant
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.refusal import RefusalError, Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

MICROSOFT = "com.microsoft"
Build = Callable[["Parts"], Rewritten]
SATURATING = "also convert where ONNX Runtime saturates sums on processors without VNNI; verification may fail there"
_LINEAR, _PER_CHANNEL = 10, 13
GREATEST_PAIR = 128
"""255 times this fits into 16 bits."""


class Parts:
    """The inputs of a node to decompose, and the builder of its replacement."""

    def __init__(self, op: Builder, node: ir.Node, *, saturating: bool = False) -> None:
        self.op = op
        self.node = node
        self.saturating = saturating

    def value(self, index: int) -> ir.Value | None:
        """Return an input; None if it is missing."""
        return argument(self.node, index)

    def given(self, index: int) -> ir.Value:
        """Return a required input."""
        value = argument(self.node, index)
        return value if value is not None else self.decline("an input is missing")

    def is_computed(self, index: int) -> bool:
        """Return whether an input exists and is not constant."""
        value = self.value(index)
        return value is not None and constant(value) is None

    def decline(self, reason: str) -> NoReturn:
        """Refuse to decompose the node."""
        raise RefusalError(reason, self.node)

    def array(self, index: int, what: str) -> np.ndarray:
        """Return the elements of an input, which must be constant."""
        array = constant(self.value(index))
        return array if array is not None else self.decline(not_constant(self.value(index), what).reason)

    def attributes(self, *, without: Collection[str] = ()) -> Mapping[str, ir.Attr]:
        """Return the attributes, which are also those of the float operator."""
        return {name: attribute for name, attribute in self.node.attributes.items() if name not in without}

    def real(self, index: int, *, axis: int | None = None, parameters: tuple[int, int] | None = None) -> ir.Value:
        """Dequantize an input; scale and zero point are the next inputs unless ``parameters`` has other indices.

        Several scales lie along ``axis``, counted from the end if negative.
        """
        value = self.given(index)
        scale_index, zero_index = parameters or (index + 1, index + 2)
        return self.dequantized(value, self.given(scale_index), self.value(zero_index), axis)

    def dequantized(
        self, value: ir.Value, scale: ir.Value | np.ndarray, zero: ir.Value | None, axis: int | None = None
    ) -> ir.Value:
        """Dequantize a value, per channel if there are several scales or zero points."""
        sizes = [_size(parameter) for parameter in (scale, zero) if parameter is not None]
        if None in sizes:
            self.decline("the number of scales is not known")
        if max(size or 0 for size in sizes) == 1:
            return self._dequantize(value, scale, zero)
        scales = _array(scale)
        zeros = np.zeros((), value.dtype.numpy() if value.dtype else np.int8) if zero is None else constant(zero)
        if scales is None or zeros is None or max(scales.ndim, zeros.ndim) > 1 or axis is None:
            return self.decline("scales vary along more than one axis")
        if self.op.opset < _PER_CHANNEL:
            self.decline(f"per-channel scales need opset {_PER_CHANNEL}: convert-opset first")
        length = rank(value)
        if axis < 0 and length is None:
            self.decline("the rank is not known")
        axis += (length or 0) if axis < 0 else 0
        scales, zeros = np.broadcast_arrays(scales.reshape(-1), zeros.reshape(-1))
        shared = None if zero is None else np.ascontiguousarray(zeros)
        return self._dequantize(value, np.ascontiguousarray(scales), shared, axis=axis)

    def _dequantize(self, value: ir.Value, scale: Any, zero: Any, **attributes: int) -> ir.Value:
        parameters = (scale,) if zero is None else (scale, zero)
        return self.op.DequantizeLinear(value, *parameters, **attributes)

    def refuse_saturation(
        self,
        left: ir.DataType | None,
        weights: np.ndarray | None,
        right: ir.DataType | None,
        most: int = GREATEST_PAIR,
    ) -> None:
        """Refuse products whose sums ONNX Runtime saturates on some processors.

        Without VNNI it adds pairs of products of uint8 and int8 in 16 bits. ``weights`` have the contracted axis last;
        a pair of them may be at most ``most``.
        """
        mixed = left in (None, ir.DataType.UINT8) and right in (None, ir.DataType.INT8)
        if self.saturating or not mixed:
            return
        sizes = None if weights is None else np.sort(np.abs(weights.astype(np.int64)), axis=-1)[..., -2:].sum(-1)
        if sizes is None or sizes.max(initial=0) > most:
            self.decline(
                "without VNNI, ONNX Runtime saturates sums of uint8 times int8: the result depends on the machine"
            )

    def type_of(self, index: int, zero: int) -> ir.DataType | None:
        """Return the type of a quantized input, or of its zero point."""
        known = [value.dtype for value in (self.value(index), self.value(zero)) if value is not None]
        return next((dtype for dtype in known if dtype is not None), None)

    def bias(self, index: int, scale: np.ndarray) -> ir.Value | None:
        """Dequantize the integer bias of a product, with the scale of the product."""
        value = self.value(index)
        if value is None:
            return None
        return self.dequantized(value, np.asarray(scale, np.float32), None, axis=0)

    def quantized(self, result: ir.Value, index: int) -> ir.Value:
        """Quantize the result with the scale and zero point at ``index``."""
        zero = self.value(index + 1)
        if zero is None and self.node.outputs[0].dtype not in (None, ir.DataType.UINT8):
            zero = np.zeros((), np.int8)
        parameters = (self.given(index),) if zero is None else (self.given(index), zero)
        return self.op.QuantizeLinear(result, *parameters)


def taking_apart(name: str, build: Build, domain: str = "", *, saturating: bool = False) -> Rule:
    """Make a rule that replaces an operator by the result of ``build``."""

    def rewrite(op: Builder, node: ir.Node) -> Rewritten:
        if op.opset < _LINEAR:
            return no(f"DequantizeLinear needs opset {_LINEAR}: convert-opset{{version={_LINEAR}}} first", at=node)
        return build(Parts(op, node, saturating=saturating))

    # A single node has no interior values besides further results, and nodes that use these are refused otherwise.
    return node_rule(name, rewrite, domain=domain, forks="duplicate", source=source_of(build))


def columns(parts: Parts, index: int) -> np.ndarray | None:
    """Return constant weights of a matrix product, with the contracted axis last."""
    weights = constant(parts.value(index))
    return weights.swapaxes(-1, -2) if weights is not None and weights.ndim > 1 else weights


def _array(parameter: ir.Value | np.ndarray) -> np.ndarray | None:
    return constant(parameter) if isinstance(parameter, ir.Value) else parameter


def _size(parameter: ir.Value | np.ndarray) -> int | None:
    array = _array(parameter)
    shape = array.shape if array is not None else static_shape(cast(ir.Value, parameter))
    return None if shape is None else math.prod(shape)
