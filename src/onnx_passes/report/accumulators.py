"""The table of integer layers: their sums, and the bits of these."""

from __future__ import annotations

from rich.table import Table

from onnx_passes.analysis.streamlined import Accumulator, Streamlined
from onnx_passes.report.columns import Column
from onnx_passes.report.tables import fitted_table

_COLUMNS = (
    Column("integer layer", shorten="front", least=20),
    Column("MACs", right=True),
    Column("input", right=True),
    Column("weights", right=True),
    Column("sums", right=True),
    Column("bits", right=True),
    Column("A2Q", right=True, spare=1),
    Column("by type", right=True, spare=2),
    Column("thresholds", right=True, spare=3),
)


def accumulators_table(found: Streamlined, width: int) -> Table:
    """Tabulate the layers that compute on integers; ``A2Q`` is the bound from the weights and the type of the input."""
    return fitted_table(_COLUMNS, [(_row(layer), "") for layer in found.accumulators], width)


def _row(layer: Accumulator) -> list[str]:
    return [
        layer.node,
        "" if layer.macs is None else f"{layer.macs:,}",
        layer.input,
        layer.weight,
        f"{layer.low:,} … {layer.high:,}",
        str(layer.bits),
        "" if layer.bits_by_norm is None else str(layer.bits_by_norm),
        str(layer.bits_by_type),
        "" if layer.thresholds is None else str(layer.thresholds),
    ]
