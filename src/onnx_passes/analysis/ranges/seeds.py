"""What is known before anything is computed: inputs, as the user or the model describes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.grid import Grid
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.settle import settle
from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.datatypes import DataType, FixedPoint, IntegerType, parse
from onnx_passes.graph.tensor_types import datatype_of, declared_bounds

Known = Range | tuple[float, float] | DataType | str
"""What a user can say of an input: a range, its two ends, or the name of a data type such as ``UINT8``."""

_WIDEST = 62


def seeds(inputs: Iterable[ir.Value], given: Mapping[str, Known]) -> dict[ir.Value, Range]:
    """Return the range of each input of a graph."""
    known = {value.name or "": value for value in inputs}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"inputs: {', '.join(known)}"
            raise UsageError(f"no input is called '{name}'", hint=hint)
    return {value: settle(_seed(value, given.get(name)), value) for name, value in known.items()}


def range_of_type(datatype: DataType | None) -> Range | None:
    """Return the range of a data type of evenly spaced numbers; there is nothing to say of others."""
    if datatype is None or datatype.bitwidth > _WIDEST:
        return None
    if isinstance(datatype, IntegerType):
        return Range.integers(datatype.min, datatype.max)
    if isinstance(datatype, FixedPoint):
        step = 2.0**-datatype.fraction_bits
        low, high = float(datatype.min), float(datatype.max)
        return Range.of(low, high, Grid.of(*(np.asarray(part) for part in (step, 0.0, low / step, high / step))))
    return None


def _seed(value: ir.Value, given: Known | None) -> Range:
    declared, bounds = range_of_type(datatype_of(value)), declared_bounds(value)
    if bounds is not None:
        declared = _between(*bounds, value, declared)
    match given:
        case None:
            return declared or UNKNOWN
        case str() | DataType():
            return _of_type(parse(str(given)), value)
        case Range():
            return given
        case low, high:
            return _between(float(low), float(high), value, declared)


def _of_type(datatype: DataType, value: ir.Value) -> Range:
    found = range_of_type(datatype)
    if found is None:
        raise UsageError(
            f"'{datatype}' does not say which integers there are",
            where=value.name,
            hint="write INT8, UINT4, BIPOLAR, FIXED<8,4>, or the two ends of the range",
        )
    return found


def _between(low: float, high: float, value: ir.Value, declared: Range | None) -> Range:
    if math.isnan(low) or math.isnan(high) or low > high:
        raise UsageError(
            f"the range from {low:g} to {high:g} is empty", where=value.name, hint="give the lower end first"
        )
    if declared is None:
        return Range.of(low, high)
    least, most = max(low, float(declared.low)), min(high, float(declared.high))
    if declared.integer_grid is not None:
        least, most = math.ceil(least), math.floor(most)
    if least > most:
        raise UsageError(
            f"no value of its data type is in the range from {low:g} to {high:g}",
            where=value.name,
            hint="correct the range, or the annotation finn_datatype",
        )
    return Range.integers(least, most) if declared.integer_grid is not None else Range.of(least, most, declared.grid)
