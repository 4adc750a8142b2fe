"""Quantizers: their interface, the precision that they compute in, and the broadcast of their parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import static_shape
from onnx_passes.numbers.rounding import Edge
from onnx_passes.ops.definition import Call, Definition, definition_of

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


class IntegerGrid(NamedTuple):
    """The levels ``(k - zero) * scale`` of the integers ``k`` from ``low`` to ``high``, ``step`` apart."""

    low: int
    high: int
    scale: np.ndarray
    zero: np.ndarray
    step: int = 1


class IntegerLevels(NamedTuple):
    """The integers from ``low`` to ``high``, ``step`` apart, and the name of their data type, if it has one."""

    low: int
    high: int
    step: int = 1
    datatype: str = ""


BIPOLAR_LEVELS = IntegerLevels(-1, 1, 2, "BIPOLAR")


class Quantizing:
    """Interface of quantizers; all other facts follow from the ``grid`` if it is known."""

    implements: ClassVar[tuple[str, ...]] = ("quantizer",)
    to_integers: ClassVar[bool] = True
    """Whether levels are integers times a scale; those of a quantizer to small floats are not."""
    decides: ClassVar[bool] = True
    """Whether the result jumps where the first input moves by the last bit."""

    def grid(self, node: ir.Node) -> IntegerGrid | None:
        """Return the levels, for any input; None if parameters are computed."""
        return None

    def levels(self, node: ir.Node) -> IntegerLevels | str:
        """Return the levels of a node without scale and zero point, or say why there are none."""
        found = self.grid(node)
        if found is None:
            return "its levels are not known"
        if not (np.all(found.scale == 1) and np.all(found.zero == 0)):
            return "its scale is not 1, or its zero point not 0"
        return IntegerLevels(found.low, found.high, found.step)

    def edge(self, node: ir.Node, level: int) -> Edge | None:
        """Return the decision boundary of a level, of a node without scale and zero point; None if unknown."""
        return None

    def bits(self, node: ir.Node) -> float | None:
        """Return the number of bits of the levels; None if it depends on the run."""
        found = self.grid(node)
        return None if found is None else float(((found.high - found.low) // found.step).bit_length())

    def signed(self, node: ir.Node) -> bool | None:
        """Return whether there are negative levels; None if unknown."""
        found = self.grid(node)
        return None if found is None else found.low < 0

    def per(self, node: ir.Node) -> str:
        """Return the extent of one scale: ``tensor``, ``channel``, or an empty text if unknown."""
        shape = static_shape(argument(node, 1))
        return "" if shape is None else "tensor" if all(extent == 1 for extent in shape) else "channel"


class CountingThresholds(Quantizing):
    """MultiThreshold: its levels are counts, as many as there are thresholds."""

    to_integers = False

    def bits(self, node: ir.Node) -> float | None:
        """Return as many bits as the number of thresholds needs."""
        shape = static_shape(argument(node, 1))
        return float(shape[-1].bit_length()) if shape else None

    def per(self, node: ir.Node) -> str:
        """Return an empty text: the operator has no scale."""
        return ""


class LinearQuantizing(Quantizing):
    """QuantizeLinear: its integer type is that of its zero point, its attribute, or its result."""

    def dtype(self, node: ir.Node) -> ir.DataType | None:
        """Return the type on the integer side."""
        zero_point = argument(node, 2)
        if zero_point is not None and zero_point.dtype is not None:
            return zero_point.dtype
        named = node.attributes.get_int("output_dtype", 0)
        return ir.DataType(named) if named else node.outputs[0].dtype or ir.DataType.UINT8

    def bits(self, node: ir.Node) -> float | None:
        """Return the number of bits of the integer type."""
        dtype = self.dtype(node)
        return None if dtype is None else dtype.itemsize * 8

    def signed(self, node: ir.Node) -> bool | None:
        """Return whether the integer type is signed; floats are."""
        dtype = self.dtype(node)
        return None if dtype is None else not dtype.is_integer() or dtype.is_signed()


class Dequantizing(LinearQuantizing):
    """DequantizeLinear: the integers of a quantizer that is stored, or comes before."""

    def dtype(self, node: ir.Node) -> ir.DataType | None:
        """Return the type of the first input."""
        value = argument(node, 0)
        return None if value is None else value.dtype


class _Dynamic(Quantizing):
    """DynamicQuantizeLinear: to unsigned bytes, with a scale that depends on all values."""

    decides = False

    def bits(self, node: ir.Node) -> float | None:
        """Return eight."""
        return 8.0

    def signed(self, node: ir.Node) -> bool | None:
        """Return that there are no negative levels."""
        return False

    def per(self, node: ir.Node) -> str:
        """Return that one scale is for all values."""
        return "tensor"


QUANTIZERS: Interface[Quantizing] = Interface(
    "quantizer", "the levels that it rounds to; definitions that are Quantizing need no other"
)
QUANTIZERS.of("QuantizeLinear")(_LINEAR := LinearQuantizing())
QUANTIZERS.of("QuantizeLinear", domains=("com.microsoft",))(_LINEAR)
QUANTIZERS.of("DynamicQuantizeLinear")(_Dynamic())
SCALED_PRODUCTS = frozenset({"QLinearConv", "QLinearMatMul", "QGemm"})
"""Products of integers with scales of their own, that of the result among them."""
QUANTIZING_PRODUCTS = frozenset({"DynamicQuantizeLSTM", "DynamicQuantizeMatMul"})
"""Products that quantize floats as they run, and multiply them with stored integers."""


def quantizer_of(node: ir.Node) -> Quantizing | None:
    """Return the interface of a node as a quantizer, or None for any other node."""
    definition = definition_of(node)
    return definition if isinstance(definition, Quantizing) else QUANTIZERS.get(node)


def is_quantizer(node: ir.Node) -> bool:
    """Return whether a node is a quantizer, to integers or other levels."""
    return quantizer_of(node) is not None


def has_scales(node: ir.Node) -> bool:
    """Return whether a node reads scales of integers: it is a quantizer, a dequantizer, or a scaled product."""
    return is_quantizer(node) or node.op_type == "DequantizeLinear" or node.op_type in SCALED_PRODUCTS


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
    """Return whether a node is an elementwise quantizer defined here, to integers times a scale."""
    definition = None if node is None else definition_of(node)
    return isinstance(definition, Quantizer) and definition.to_integers


def parameter(node: ir.Node, index: int) -> np.ndarray | None:
    """Return the elements of a parameter of a node, if it is constant and not empty."""
    array = constant(argument(node, index))
    return None if array is None or not array.size else array


def is_everywhere(node: ir.Node, index: int, number: float) -> bool:
    """Return whether a parameter of a node is constant, and the same number everywhere."""
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
        """Return an input in the type of the computation, or None if it is left out."""
        value = super().input(index)
        if value is None or (value.dtype or self._given) in (None, self.dtype):
            return value
        if index not in self._inputs:
            self._inputs[index] = self._op.Cast(value, to=self.dtype)
        return self._inputs[index]

    def constant(self, index: int) -> np.ndarray | None:
        """Return the elements of an input in the type of the computation, if it is constant."""
        found = super().constant(index)
        return None if found is None else found.astype(self.dtype.numpy(), copy=False)

    def number(self, number: float) -> np.ndarray:
        """Return a number in the type that is computed in."""
        return np.array(number, self.dtype.numpy())

    def is_scalar(self, array: np.ndarray) -> bool:
        """Return whether a parameter is one number that leaves the rank of the values alone."""
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
