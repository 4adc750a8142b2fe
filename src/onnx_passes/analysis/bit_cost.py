"""Bit operations, and memory by bit width: what products of quantized networks cost where every bit counts.

A multiply-accumulate of numbers of a and of w bits counts a * w bit operations (BOPs), none where the weight is a
constant zero. Floats count with the bits of their element type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.core.plain import plain
from onnx_passes.datatypes import DataType
from onnx_passes.graph.constants import constant
from onnx_passes.graph.extents import Amount
from onnx_passes.graph.traits import is_product
from onnx_passes.ops.facts.work import UnknownSizeError, size, total, work_of

DatatypeOf = Callable[[ir.Value], DataType]


class BitLayer(NamedTuple):
    """One product: data types of input, weight and result, and what they cost; ``None`` is not known.

    ``nonzero_macs`` are those whose weight is no constant zero: ``bops`` are their bit operations. ``weight_bits`` are
    those of all constant weights, ``nonzero_weight_bits`` without zeros, ``output_bits`` those of the sums.
    """

    name: str
    operator: str
    input: str
    weight: str
    output: str
    macs: Amount | None
    nonzero_macs: Amount | None
    bops: Amount | None
    weight_bits: int
    nonzero_weight_bits: int
    output_bits: Amount | None


@dataclass(frozen=True)
class ModelBitCost:
    """The products of a model in execution order; sums leave out what is not known."""

    layers: tuple[BitLayer, ...]

    @cached_property
    def macs(self) -> Amount:
        """Return all multiply-accumulates."""
        return total(layer.macs for layer in self.layers)

    @cached_property
    def bops(self) -> Amount:
        """Return the bit operations of those whose weight is no constant zero."""
        return total(layer.bops for layer in self.layers)

    @cached_property
    def weight_bits(self) -> int:
        """Return the bits of all constant weights."""
        return sum(layer.weight_bits for layer in self.layers)

    @cached_property
    def nonzero_weight_bits(self) -> int:
        """Return the bits of all constant weights that are not zero."""
        return sum(layer.nonzero_weight_bits for layer in self.layers)

    @cached_property
    def output_bits(self) -> Amount:
        """Return the bits of all sums."""
        return total(layer.output_bits for layer in self.layers)

    def by_types(self) -> dict[tuple[str, str], tuple[Amount, Amount]]:
        """Map data types of input and weight to multiply-accumulates by weights that are no zeros, and to BOPs."""
        groups: dict[tuple[str, str], list[BitLayer]] = {}
        for layer in self.layers:
            groups.setdefault((layer.input, layer.weight), []).append(layer)
        return {
            types: (total(each.nonzero_macs for each in layers), total(each.bops for each in layers))
            for types, layers in groups.items()
        }

    def to_json(self, *, layers: bool = True) -> dict[str, Any]:
        """Return plain data: sums, ``types`` with MACs and BOPs by data types of input and weight, and all layers."""
        sums = ("macs", "bops", "weight_bits", "nonzero_weight_bits", "output_bits")
        data: dict[str, Any] = {name: getattr(self, name) for name in sums}
        data["types"] = [
            {"input": left, "weight": right, "macs": macs, "bops": bops}
            for (left, right), (macs, bops) in self.by_types().items()
        ]
        return plain(data | {"layers": self.layers} if layers else data)


def bit_cost_of(model: ir.Model, datatype_of: DatatypeOf) -> ModelBitCost:
    """Count by the shapes that are known; ``datatype_of`` says which numbers a value holds."""
    return ModelBitCost(tuple(_layer(node, datatype_of) for node in model.graph if is_product(node)))


def _layer(node: ir.Node, datatype_of: DatatypeOf) -> BitLayer:
    x, w = node.inputs[:2]
    assert x is not None
    assert w is not None
    left, right, result = (datatype_of(value) for value in (x, w, node.outputs[0]))
    weights, width = (constant(w), right.bitwidth) if constant(x) is None else (constant(x), left.bitwidth)
    elements = 0 if weights is None else weights.size
    nonzero = 0 if weights is None else int(np.count_nonzero(weights))
    macs = _macs(node)
    used = macs * nonzero // elements if elements and macs is not None else macs
    return BitLayer(
        name=node.name or node.outputs[0].name or "",
        operator=node.op_type,
        input=str(left),
        weight=str(right),
        output=str(result),
        macs=macs,
        nonzero_macs=used,
        bops=None if used is None else used * (left.bitwidth * right.bitwidth),
        weight_bits=elements * width,
        nonzero_weight_bits=nonzero * width,
        output_bits=_bits(node.outputs[0], result),
    )


def _macs(node: ir.Node) -> Amount | None:
    try:
        work = work_of(node)
    except UnknownSizeError:
        return None
    return None if work is None else work.macs


def _bits(value: ir.Value, datatype: DataType) -> Amount | None:
    try:
        return size(value) * datatype.bitwidth
    except UnknownSizeError:
        return None
