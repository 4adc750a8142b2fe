"""Which quantizers a model has, on what, and of how many bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.wording import operator_name
from onnx_passes.ops.quantizing import Dequantizing, is_quantizer, quantizer_of

_PASSES_ON = frozenset({"Clip", "DequantizeLinear", "Identity", "Reshape", "Transpose"})
_DEQUANTIZER = Dequantizing()


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
    found = _DEQUANTIZER if node.op_type == "DequantizeLinear" else quantizer_of(node)
    if found is not None:
        of = "weights" if _is_weight(argument(node, 0)) else "activations"
        yield Quantizer(operator_name(node), found.bits(node), found.signed(node), of, found.per(node))


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
        if producer.op_type not in _PASSES_ON and not is_quantizer(producer):
            return False
        value = argument(producer, 0)
    return False
