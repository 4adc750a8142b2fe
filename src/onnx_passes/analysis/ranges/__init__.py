"""Range analysis: which values a tensor can hold, as intervals and as scaled integers."""

from onnx_passes.analysis.ranges.analyse import ranges_of as ranges_of
from onnx_passes.analysis.ranges.grid import Grid as Grid
from onnx_passes.analysis.ranges.range import Range as Range
from onnx_passes.analysis.ranges.range import bits_for as bits_for

__all__ = ["Grid", "Range", "bits_for", "ranges_of"]
