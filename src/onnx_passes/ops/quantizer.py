"""What quantizers have in common: the precision that they compute in, and that their parameters broadcast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant
from onnx_passes.ops.definition import Call, Definition, definition_of
from onnx_passes.ops.quantizing import IntegerLevels, Quantizing

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


_ZERO_POINT = 2


class Quantizer(Quantizing, Definition):
    """An operator that computes element by element, in float64 for that type and in float32 for all others.

    The result has the type of the values; of integers it is float32. ``quantize`` and ``build`` are given all inputs
    in the type that is computed in.
    """

    @abstractmethod
    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""

    @abstractmethod
    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        given = ir.DataType.from_numpy(inputs[0].dtype)
        working = _working(given).numpy()
        with np.errstate(all="ignore"):
            found = self.quantize([np.asarray(array).astype(working, copy=False) for array in inputs], attributes)
            return np.asarray(found, working).astype(_result(given).numpy(), copy=False)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        working = Working(op, call)
        found = self.build(op, working)
        given = _given(call)
        wanted = None if given is None else _result(given)
        return found if wanted in (None, working.dtype) else op.Cast(found, to=wanted)

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer type and shape: the values', which parameters of higher rank raise."""
        from onnx_shape_inference import broadcast_shapes

        first = node.inputs[0] if node.inputs else None
        if first is None:
            return
        shape = first.shape
        for value in node.inputs[1:]:
            if shape is not None and value is not None and value.shape is not None and len(value.shape):
                shape = broadcast_shapes(shape, value.shape)
        ctx.set_shape_and_dtype(node.outputs[0], shape, None if first.dtype is None else _result(first.dtype))


def rounds_to_integers(node: ir.Node | None) -> bool:
    """Tell whether a node is of a quantizer that is defined here, to integers times a scale, element by element."""
    definition = None if node is None else definition_of(node)
    return isinstance(definition, Quantizer) and definition.to_integers


def parameter(node: ir.Node, index: int) -> np.ndarray | None:
    """Return what a parameter of a node holds, if it is constant and not empty."""
    array = constant(argument(node, index))
    return None if array is None or not array.size else array


def is_everywhere(node: ir.Node, index: int, number: float) -> bool:
    """Tell whether a parameter of a node is constant, and the same number everywhere."""
    array = parameter(node, index)
    return array is not None and bool(np.all(array == number))


def clamped_levels(node: ir.Node, scale: int, bits: int, *, signed: bool, narrow: bool) -> IntegerLevels | str:
    """Return the integers that a quantizer clamps to, given where its scale and its bit width are."""
    if any(constant(value) is None for value in node.inputs[1:]):
        return "a parameter is computed"
    if not is_everywhere(node, scale, 1) or not is_everywhere(node, _ZERO_POINT, 0):
        return "its scale is not 1, or its zero point not 0"
    width = parameter(node, bits)
    if width is None or not np.all(width == width.flat[0]):
        return "its bit width is not the same everywhere"
    number = float(width.flat[0])
    if not number.is_integer() or number < 1:
        return "its bit width is no whole number"
    amount = int(number)
    steps = 2**amount - 1 - narrow
    if steps == 0:
        return "it has a single level"
    if not signed:
        return IntegerLevels(0, steps, datatype="BINARY" if amount == 1 else f"UINT{amount}")
    low = -(2 ** (amount - 1)) + narrow
    return IntegerLevels(low, low + steps, datatype=f"INT{amount}")


class Working(Call):
    """One use of a quantizer, with inputs, constants and numbers in the type that is computed in."""

    def __init__(self, op: Builder, call: Call) -> None:
        super().__init__(call.node, call.attributes)
        self._given = _given(call)
        self.dtype = _working(self._given)
        self._op = op
        self._inputs: dict[int, ir.Value] = {}

    def input(self, index: int) -> ir.Value | None:
        """Return an input, or nothing if it is left out."""
        value = super().input(index)
        if value is None or (value.dtype or self._given) in (None, self.dtype):
            return value
        if index not in self._inputs:
            self._inputs[index] = self._op.Cast(value, to=self.dtype)
        return self._inputs[index]

    def constant(self, index: int) -> np.ndarray | None:
        """Return what an input holds, if it is constant."""
        found = super().constant(index)
        return None if found is None else found.astype(self.dtype.numpy(), copy=False)

    def number(self, number: float) -> np.ndarray:
        """Return a number in the type that is computed in."""
        return np.array(number, self.dtype.numpy())

    def is_scalar(self, array: np.ndarray) -> bool:
        """Tell whether a parameter is one number that leaves the rank of the values alone."""
        shape = self.node.inputs[0].shape if self.node.inputs[0] is not None else None
        return array.ndim == 0 or (array.size == 1 and shape is not None and array.ndim <= len(shape))


def _given(call: Call) -> ir.DataType | None:
    """Return the element type of the values; where that is unknown it is taken for that of their scale."""
    scale = call.input(1)
    return call.x.dtype or (None if scale is None else scale.dtype)


def _working(dtype: ir.DataType | None) -> ir.DataType:
    return ir.DataType.DOUBLE if dtype is ir.DataType.DOUBLE else ir.DataType.FLOAT


def _result(dtype: ir.DataType) -> ir.DataType:
    return dtype if dtype.is_floating_point() else ir.DataType.FLOAT
