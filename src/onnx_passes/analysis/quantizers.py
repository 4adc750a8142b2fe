"""Which quantizers a model has, on what, and of how many bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.analysis.formulas import QUANTIZED_DOMAINS
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.wording import operator_name

_BITS_INPUT = {"Quant": 3, "IntQuant": 3, "Trunc": 4}
_DTYPE_INPUT = {"QuantizeLinear": 2, "DequantizeLinear": 0}


class Quantizer(NamedTuple):
    """A kind of quantizer: ``bits`` and ``signed`` are ``None`` where they depend on the run.

    ``of`` is ``weights`` or ``activations``, ``per`` says what one scale is for: ``tensor``, ``channel`` or unknown.
    """

    operator: str
    bits: float | None
    signed: bool | None
    of: str
    per: str

    def __str__(self) -> str:
        sign = "" if self.signed is None else "signed " if self.signed else "unsigned "
        bits = "? bits" if self.bits is None else "1 bit" if self.bits == 1 else f"{self.bits:g} bits"
        return f"{self.operator}, {sign}{bits}, {self.of}" + (f", per {self.per}" if self.per else "")


def quantizers_of(model: ir.Model) -> Counter[Quantizer]:
    """Count the quantizers of the graph and its bodies by kind."""
    return Counter(found for node in all_nodes(model.graph) for found in _quantizer(node))


def _quantizer(node: ir.Node) -> Iterator[Quantizer]:
    name, first = node.op_type, _given(node, 0)
    of = "weights" if _is_weight(first) else "activations"
    operator = operator_name(node)
    if node.domain in QUANTIZED_DOMAINS:
        if name in _BITS_INPUT:
            bits = constant(_given(node, _BITS_INPUT[name]))
            signed = bool(node.attributes.get_int("signed", 1)) if name != "Trunc" else None
            yield Quantizer(
                operator, float(bits.max()) if bits is not None and bits.size else None, signed, of, _per(node)
            )
        elif name == "BipolarQuant":
            yield Quantizer(operator, 1.0, True, of, _per(node))
        elif name == "FloatQuant":
            yield Quantizer(operator, _float_bits(node), True, of, _per(node))
        elif name == "MultiThreshold":
            yield Quantizer(operator, _threshold_bits(node), None, of, "")
    elif node.domain in ("", "com.microsoft") and name in _DTYPE_INPUT:
        dtype = _quantized_dtype(node)
        known = dtype is not None and dtype.is_integer()
        bits, signed = (dtype.itemsize * 8, dtype.is_signed()) if known and dtype is not None else (None, None)
        if dtype is not None and not known:
            bits, signed = dtype.itemsize * 8, True
        yield Quantizer(operator, bits, signed, of, _per(node))
    elif node.domain == "" and name == "DynamicQuantizeLinear":
        yield Quantizer(operator, 8.0, False, of, "tensor")


def _quantized_dtype(node: ir.Node) -> ir.DataType | None:
    """Return the type on the integer side: that of the result, the zero point, or what is given as attribute."""
    if node.op_type == "DequantizeLinear":
        value = _given(node, 0)
        return None if value is None else value.dtype
    zero_point = _given(node, 2)
    if zero_point is not None and zero_point.dtype is not None:
        return zero_point.dtype
    given = node.attributes.get_int("output_dtype", 0)
    return ir.DataType(given) if given else node.outputs[0].dtype or ir.DataType.UINT8


def _float_bits(node: ir.Node) -> float | None:
    exponent, mantissa = constant(_given(node, 2)), constant(_given(node, 3))
    if exponent is None or mantissa is None:
        return None
    return 1.0 + float(exponent.max()) + float(mantissa.max())


def _threshold_bits(node: ir.Node) -> float | None:
    shape = static_shape(_given(node, 1))
    return float(shape[-1].bit_length()) if shape else None


def _per(node: ir.Node) -> str:
    shape = static_shape(_given(node, 1))
    if shape is None:
        return ""
    return "tensor" if all(extent == 1 for extent in shape) else "channel"


def _given(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _is_weight(value: ir.Value | None) -> bool:
    """Tell whether a value comes with the model, also if nodes stand between that only take it further."""
    for _ in range(16):
        if value is None:
            return False
        producer = value.producer()
        if producer is None:
            return value.is_initializer()
        if producer.op_type == "Constant":
            return True
        passes_on = (*_DTYPE_INPUT, *_BITS_INPUT, "Clip", "Transpose", "Reshape", "Identity", "BipolarQuant")
        if producer.op_type not in passes_on:
            return False
        value = _given(producer, 0)
    return False
