"""What makes an operator a quantizer: it rounds its first input to few levels, which its parameters tell."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import static_shape
from onnx_passes.numbers.rounding import Edge
from onnx_passes.ops.definition import definition_of


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
    """What is asked of quantizers; whoever knows the ``grid`` of one knows the rest."""

    implements: ClassVar[tuple[str, ...]] = ("quantizer",)
    to_integers: ClassVar[bool] = True
    """Whether levels are integers times a scale; those of a quantizer to small floats are not."""
    decides: ClassVar[bool] = True
    """Whether the result jumps where the first input moves by the last bit."""

    def grid(self, node: ir.Node) -> IntegerGrid | None:
        """Return the levels, for any input; nothing where parameters are computed."""
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
        """Return where a level begins, of a node without scale and zero point; nothing where it does not say."""
        return None

    def bits(self, node: ir.Node) -> float | None:
        """Return the number of bits of the levels; nothing where it depends on the run."""
        found = self.grid(node)
        return None if found is None else float(((found.high - found.low) // found.step).bit_length())

    def signed(self, node: ir.Node) -> bool | None:
        """Tell whether there are negative levels."""
        found = self.grid(node)
        return None if found is None else found.low < 0

    def per(self, node: ir.Node) -> str:
        """Tell what one scale is for: ``tensor``, ``channel``, or nothing where it is not known."""
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
        """Return that there is no scale."""
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
        """Tell whether the integer type is signed; floats are."""
        dtype = self.dtype(node)
        return None if dtype is None else not dtype.is_integer() or dtype.is_signed()


class Dequantizing(LinearQuantizing):
    """DequantizeLinear: the integers of a quantizer that is stored, or comes before."""

    def dtype(self, node: ir.Node) -> ir.DataType | None:
        """Return the type of what is read."""
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
    """Return what is known of a node as a quantizer, or nothing if it is none."""
    definition = definition_of(node)
    return definition if isinstance(definition, Quantizing) else QUANTIZERS.get(node)


def is_quantizer(node: ir.Node) -> bool:
    """Tell whether a node makes integers, or other levels, of anything."""
    return quantizer_of(node) is not None


def has_scales(node: ir.Node) -> bool:
    """Tell whether a node reads what integers are multiples of: it makes them, takes them back or multiplies them."""
    return is_quantizer(node) or node.op_type == "DequantizeLinear" or node.op_type in SCALED_PRODUCTS
