"""The table of integer layers: what each adds up, and in how many bits."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from onnx_passes.analysis.streamlined import Accumulator, Streamlined


def accumulators_table(found: Streamlined) -> Table:
    """Tabulate the layers that compute on integers; ``A2Q`` is the bound from the weights and the type of the input."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("integer layer", no_wrap=True, overflow="ellipsis", max_width=36)
    for name in ("MACs", "input", "weights", "sums", "bits", "A2Q", "by type", "thresholds"):
        table.add_column(name, justify="right", no_wrap=True)
    for layer in found.accumulators:
        table.add_row(*_row(layer))
    return table


def _row(layer: Accumulator) -> list[Text | str]:
    return [
        Text(layer.node),
        "" if layer.macs is None else f"{layer.macs:,}",
        layer.input,
        layer.weight,
        f"{layer.low:,} … {layer.high:,}",
        str(layer.bits),
        "" if layer.bits_by_norm is None else str(layer.bits_by_norm),
        str(layer.bits_by_type),
        "" if layer.thresholds is None else str(layer.thresholds),
    ]
