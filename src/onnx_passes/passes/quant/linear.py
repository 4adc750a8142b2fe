"""Parameters of QuantizeLinear and DequantizeLinear: scales, zero points and the integer type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.passes.quant.widths import type_bounds
from onnx_passes.rewrite.refusal import Refusal, no

DOMAINS = ("", "com.microsoft")
"""Domains of QuantizeLinear and DequantizeLinear."""
_FLOAT = ir.DataType.FLOAT


@dataclass(frozen=True, eq=False)
class Linear:
    """Constant scale and zero point: one number each, or one for each index along ``axis``."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def is_per_channel(self) -> bool:
        """Return whether there are several scales."""
        return self.scale.ndim > 0

    def is_like(self, other: Linear, rank: int | None) -> bool:
        """Return whether both are equivalent for data of a rank."""
        same = np.array_equal(self.scale, other.scale) and np.array_equal(self.zero, other.zero)
        if not self.is_per_channel or self.axis == other.axis:
            return same
        return same and rank is not None and self.axis % rank == other.axis % rank

    def spread(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Return scales and zero points shaped to broadcast to data of a rank."""
        if not self.is_per_channel:
            return self.scale, self.zero
        along = [1] * rank
        along[self.axis] = -1
        return self.scale.reshape(along), self.zero.reshape(along)


def argument(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input; None if it is missing."""
    return node.inputs[index] if index < len(node.inputs) else None


def not_constant(value: ir.Value | None, what: str) -> Refusal:
    """Return the refusal of a parameter that is not constant, or may be overridden."""
    if value is not None and value.is_graph_input() and value.const_value is not None:
        return no(f"the {what} is an input with a default: run remove-initializers-from-inputs first", at=value)
    return no(f"the {what} is not constant", at=value)


def quantized_type(node: ir.Node) -> ir.DataType | None:
    """Return the integer type of the result of QuantizeLinear, or of the input of DequantizeLinear."""
    zero = argument(node, 2)
    if zero is not None:
        tensor = constant_tensor(zero)
        return zero.dtype if tensor is None else tensor.dtype
    if node.op_type == "QuantizeLinear":
        return ir.DataType(node.attributes.get_int("output_dtype", 0) or ir.DataType.UINT8)
    value = argument(node, 0)
    tensor = constant_tensor(value)
    return None if value is None else value.dtype if tensor is None else tensor.dtype


def linear_of(node: ir.Node) -> Linear | Refusal:
    """Return the parameters of a node, or the reason why Quant cannot have them."""
    dtype = quantized_type(node)
    if dtype is None:
        return no("the integer type is not known", at=node)
    if not dtype.is_integer():
        return no(f"{dtype.name} is not an integer type", at=node)
    for attribute in ("output_dtype", "precision"):
        asked = node.attributes.get_int(attribute, 0)
        if asked not in (0, _FLOAT) and not (attribute == "output_dtype" and node.op_type == "QuantizeLinear"):
            return no(f"it computes in {ir.DataType(asked).name}, Quant in single precision", at=node)
    scale, given_zero = constant(argument(node, 1)), argument(node, 2)
    zero = np.zeros_like(scale, np.int64) if given_zero is None and scale is not None else constant(given_zero)
    if scale is None or zero is None:
        return not_constant(argument(node, 1), "scale") if scale is None else not_constant(given_zero, "zero point")
    if scale.dtype != np.float32:
        return no(f"it computes in {scale.dtype}, Quant in single precision", at=node)
    if node.attributes.get_int("block_size", 0) or scale.ndim > 1:
        return no("scales are per block", at=node)
    if scale.size == 0 or (zero.size != scale.size):
        return no("scale and zero point are not of the same size", at=node)
    zero = zero.astype(np.int64)
    if scale.size == 1:
        return Linear(scale.reshape(()), zero.reshape(()), 0)
    return Linear(scale, zero.reshape(scale.shape), node.attributes.get_int("axis", 1))


def on_axis(given: Linear, sizes: Sequence[int | None] | None, at: ir.Node) -> Linear | Refusal:
    """Return the parameters with the axis counted from the front; refuse scales that do not match the axis."""
    if not given.is_per_channel:
        return given
    if sizes is None:
        return no("the rank is not known, so that the axis of the scales is unknown", at=at)
    if not -len(sizes) <= given.axis < len(sizes) or sizes[given.axis] not in (None, given.scale.size):
        return no("there is not one scale for each index of the axis", at=at)
    return Linear(given.scale, given.zero, given.axis % len(sizes))


def bounds_of(dtype: ir.DataType, clip: ir.Node | None) -> tuple[int, int] | Refusal:
    """Return the range of integers of a type after a Clip."""
    bounds = list(type_bounds(dtype))
    for index, name in enumerate(("min", "max") if clip is not None else ()):
        assert clip is not None
        value = argument(clip, index + 1)
        if name in clip.attributes:
            return no("the bounds of Clip are attributes, which are not possible for integers", at=clip)
        if value is None:
            continue
        bound = constant(value)
        if bound is None or bound.size != 1:
            return no("a bound of Clip is not constant", at=clip)
        bounds[index] = int(bound.astype(np.int64).reshape(()))
    low, high = bounds
    return (low, high) if low <= high else no("the bounds of Clip exclude each other", at=clip)


def dequantized(integers: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Compute DequantizeLinear."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray((integers - zero).astype(np.float32) * scale, np.float32)


def steps(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, bounds: tuple[int, int]) -> np.ndarray:
    """Compute the argument of the rounding in Quant: scaled, shifted and clipped."""
    low, high = (np.float32(bound) for bound in bounds)
    with np.errstate(all="ignore"):
        return np.clip(x / scale + zero.astype(np.float32), low, high)


def sizes_of(value: ir.Value | None) -> list[int | None] | None:
    """Return the dimensions, None for unknown ones; None if the rank is unknown."""
    if value is None or value.shape is None:
        return None
    return [size if isinstance(size, int) else None for size in value.shape]
