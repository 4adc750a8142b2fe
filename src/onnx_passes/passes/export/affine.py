"""Compose consecutive constant factors and shifts."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import finite_constant
from onnx_passes.graph.shapes import keeps_shape, rank
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.numbers.grid import along, shrink
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.passes.fuse.layer_laws import normalization_of
from onnx_passes.passes.streamline.fold_quantized_weights import folded_quantizer
from onnx_passes.rewrite.refusal import Refusal

_ARITHMETIC = ("Add", "Div", "Mul", "Sub")
_TYPE = ir.DataType.FLOAT
"""The element type of the intermediate numbers, as that of tools that read fixed-point layers."""


class Affine(NamedTuple):
    """``x * scale + shift``, in double precision and of the rank of ``x``; ``nodes`` compute it, in order."""

    x: ir.Value
    scale: np.ndarray
    shift: np.ndarray
    nodes: tuple[ir.Node, ...]

    @classmethod
    def of(cls, node: ir.Node) -> Self | None:
        """Return the composition of all constant factors and shifts up to a node; their results have no other uses."""
        last = cls._step(node)
        if last is None:
            return None
        before = last.x.producer()
        first = None if before is None or is_used_elsewhere(last.x) else cls.of(before)
        return last if first is None else first.then(last.scale, last.shift, last.nodes)

    @classmethod
    def _step(cls, node: ir.Node) -> Self | None:
        x = node.inputs[0] if node.inputs else None
        if node.op_type == "BatchNormalization" and node.domain in ("", CHANNELS_LAST_DOMAIN):
            length, read = rank(x), normalization_of(node)
            if (
                x is None
                or x.dtype is not _TYPE
                or length is None
                or isinstance(read, Refusal)
                or len(node.outputs) > 1
            ):
                return None
            axis = 1 if not node.domain else length - 1
            scale, shift = (along(array, axis, length) for array in read)
            return cls(x, scale, shift, (node,))
        if node.domain != "" or node.op_type not in _ARITHMETIC:
            return None
        for index, value in enumerate(node.inputs):
            other = node.inputs[1 - index]
            array = _number(value)
            if value is None or other is None or array is None or _number(other) is not None:
                continue
            read = _arithmetic(node.op_type, array, is_first=index == 0)
            length = rank(other)
            has_type = other.dtype is _TYPE
            if read is None or length is None or not has_type or not keeps_shape(other, node.outputs[0], value):
                return None
            scale, shift = (part.reshape((1,) * (length - part.ndim) + part.shape) for part in read)
            return cls(other, scale, shift, (node,))
        return None

    @property
    def result(self) -> ir.Value:
        """Return the result of the last node."""
        return self.nodes[-1].outputs[0]

    def then(self, scale: np.ndarray, shift: np.ndarray, nodes: tuple[ir.Node, ...]) -> Self:
        """Return the composition with a further factor and shift."""
        return self._replace(scale=self.scale * scale, shift=self.shift * scale + shift, nodes=self.nodes + nodes)

    @property
    def has_shift(self) -> bool:
        """Return whether anything is added."""
        return bool(self.shift.any())

    @property
    def has_scale(self) -> bool:
        """Return whether anything is multiplied."""
        return bool((self.scale != 1).any())

    def along_last(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return factor and shift per index of the last axis; None if they vary along another axis."""
        last = self.x.shape[-1] if self.x.shape is not None and len(self.x.shape) else None
        parts = [shrink(part) for part in (self.scale, self.shift)]
        if not isinstance(last, int) or any(part.size != part.shape[-1] for part in parts):
            return None
        scale, shift = (np.broadcast_to(part.reshape(-1), (last,)) for part in parts)
        return scale, shift


def _number(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant, after its quantizer if it has one; None for other values."""
    node = None if value is None else value.producer()
    found = finite_constant(value) if node is None or node.op_type == "Constant" else folded_quantizer(node)
    return None if found is None else found.astype(np.float64)


def _arithmetic(op_type: str, array: np.ndarray, *, is_first: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Return factor and shift of an operator with a constant operand."""
    one, zero = np.ones(()), np.zeros(())
    match op_type:
        case "Add":
            return one, array
        case "Mul":
            return array, zero
        case "Sub":
            return (-one, array) if is_first else (one, -array)
        case _:
            return None if is_first or not array.all() else (1 / array, zero)
