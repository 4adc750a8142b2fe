"""Integer operators taken apart: their inputs dequantized, their results quantized."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, cast

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter._basics import MatchFailureError  # pyright: ignore[reportPrivateUsage]

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.quant.linear import argument, not_constant
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

MICROSOFT = "com.microsoft"
Build = Callable[["Parts"], Rewritten]
SATURATING = "also convert where ONNX Runtime saturates sums on processors without VNNI; verification may fail there"
_LINEAR, _PER_CHANNEL = 10, 13
GREATEST_PAIR = 128
"""255 times this fits into 16 bits."""


class Parts:
    """A node to take apart, and what builds the nodes instead of it."""

    def __init__(self, op: Builder, node: ir.Node, *, saturating: bool = False) -> None:
        self.op = op
        self.node = node
        self.saturating = saturating

    def value(self, index: int) -> ir.Value | None:
        """Return an input, or nothing if it is left out."""
        return argument(self.node, index)

    def given(self, index: int) -> ir.Value:
        """Return an input that cannot be left out."""
        value = argument(self.node, index)
        return value if value is not None else self.decline("an input is missing")

    def is_computed(self, index: int) -> bool:
        """Tell whether an input is there, and not constant."""
        value = self.value(index)
        return value is not None and constant(value) is None

    def decline(self, reason: str) -> NoReturn:
        """Refuse to take the node apart."""
        raise MatchFailureError(reason, self.node)

    def array(self, index: int, what: str) -> np.ndarray:
        """Return what an input holds, which has to be constant."""
        array = constant(self.value(index))
        return array if array is not None else self.decline(not_constant(self.value(index), what).reason)

    def attributes(self, *, without: Collection[str] = ()) -> Mapping[str, ir.Attr]:
        """Return the attributes, which the simple operator has too."""
        return {name: attribute for name, attribute in self.node.attributes.items() if name not in without}

    def real(self, index: int, *, axis: int | None = None, parameters: tuple[int, int] | None = None) -> ir.Value:
        """Dequantize an input; scale and zero point follow it unless they stand elsewhere.

        Several scales are those along ``axis``, counted from the end if negative.
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
            self.decline("it is not known how many scales there are")
        if max(size or 0 for size in sizes) == 1:
            return self._dequantize(value, scale, zero)
        scales = _array(scale)
        zeros = np.zeros((), value.dtype.numpy() if value.dtype else np.int8) if zero is None else constant(zero)
        if scales is None or zeros is None or max(scales.ndim, zeros.ndim) > 1 or axis is None:
            return self.decline("scales are not those of one axis")
        if self.op.opset < _PER_CHANNEL:
            self.decline(f"scales of channels take opset {_PER_CHANNEL}: convert-opset first")
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

        Without VNNI it adds pairs of products of uint8 and int8 in 16 bits. ``weights`` have what is summed up in their
        last axis; a pair of them is up to ``most``.
        """
        mixed = left in (None, ir.DataType.UINT8) and right in (None, ir.DataType.INT8)
        if self.saturating or not mixed:
            return
        sizes = None if weights is None else np.sort(np.abs(weights.astype(np.int64)), axis=-1)[..., -2:].sum(-1)
        if sizes is None or sizes.max(initial=0) > most:
            self.decline(
                "without VNNI, ONNX Runtime saturates sums of uint8 times int8: what it computes depends on the machine"
            )

    def type_of(self, index: int, zero: int) -> ir.DataType | None:
        """Return the type of a quantized input, which its zero point has too."""
        known = [value.dtype for value in (self.value(index), self.value(zero)) if value is not None]
        return next((dtype for dtype in known if dtype is not None), None)

    def bias(self, index: int, scale: np.ndarray) -> ir.Value | None:
        """Dequantize integers that were added to a sum of products; they have the scale of these."""
        value = self.value(index)
        if value is None:
            return None
        return self.dequantized(value, np.asarray(scale, np.float32), None, axis=0)

    def quantized(self, result: ir.Value, index: int) -> ir.Value:
        """Quantize the result with the scale and zero point that stand at ``index``."""
        zero = self.value(index + 1)
        if zero is None and self.node.outputs[0].dtype not in (None, ir.DataType.UINT8):
            zero = np.zeros((), np.int8)
        parameters = (self.given(index),) if zero is None else (self.given(index), zero)
        return self.op.QuantizeLinear(result, *parameters)


def taking_apart(name: str, build: Build, domain: str = "", *, saturating: bool = False) -> Rule:
    """Make a rule that puts what ``build`` returns in the place of an operator."""

    def rewrite(op: Builder, node: ir.Node) -> Rewritten:
        if op.opset < _LINEAR:
            return no(f"DequantizeLinear takes opset {_LINEAR}: convert-opset{{version={_LINEAR}}} first", at=node)
        return build(Parts(op, node, saturating=saturating))

    # Nothing is inside of one node, except further results of it, and those with any are refused for other reasons.
    return node_rule(name, rewrite, domain=domain, forks="duplicate", source=source_of(build))


def columns(parts: Parts, index: int) -> np.ndarray | None:
    """Return constant weights of a product of matrices, with what is summed up in the last axis."""
    weights = constant(parts.value(index))
    return weights.swapaxes(-1, -2) if weights is not None and weights.ndim > 1 else weights


def _array(parameter: ir.Value | np.ndarray) -> np.ndarray | None:
    return constant(parameter) if isinstance(parameter, ir.Value) else parameter


def _size(parameter: ir.Value | np.ndarray) -> int | None:
    array = _array(parameter)
    shape = array.shape if array is not None else static_shape(cast(ir.Value, parameter))
    return None if shape is None else math.prod(shape)
