"""An integer network as a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from onnx_passes.backend.network import IntegerNetwork, Layer, Tensor
from onnx_passes.report.columns import Column, table_lines

_COLUMNS = (
    Column("", right=True),
    Column("layer", shorten="front", least=16),
    Column("kind"),
    Column("operator", spare=2),
    Column("input"),
    Column("constants", spare=3),
    Column("sums"),
    Column("output"),
    Column("range"),
    Column("shape", spare=1),
    Column("reads"),
)


def network_lines(network: IntegerNetwork, width: int = sys.maxsize) -> Iterator[str]:
    """Yield a line for each layer, then the reasons for float layers; numbers denote the operand layers."""
    places = {layer.name: str(number) for number, layer in enumerate(network.layers, 1)}
    rows = [[places[layer.name], layer.name, *_row(layer, places)] for layer in network.layers]
    yield from table_lines(_COLUMNS, rows, width)
    for layer in network.floats:
        yield f"{layer.name} computes in floats: {layer.reason}"


def _row(layer: Layer, places: dict[str, str]) -> list[str]:
    read = [tensor for tensor in layer.inputs if tensor is not None]
    moving, held = ([t for t in read if (t.values is None) == flag] for flag in (True, False))
    output = layer.outputs[0] if layer.outputs else None
    return [
        layer.kind,
        layer.operator,
        " ".join(str(tensor.type) for tensor in moving),
        " ".join(_typed(tensor) for tensor in held),
        "" if layer.accumulator is None else str(layer.accumulator),
        "" if output is None else str(output.type),
        "" if output is None else output.range_text,
        "" if output is None else _shape(output),
        " ".join(places.get(tensor.source, tensor.name) for tensor in moving),
    ]


def _typed(tensor: Tensor) -> str:
    return f"{tensor.type}[{_shape(tensor)}]"


def _shape(tensor: Tensor) -> str:
    return "?" if tensor.shape is None else "×".join(map(str, tensor.shape))
