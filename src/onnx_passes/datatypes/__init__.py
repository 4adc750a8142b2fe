"""Data types of any precision: their names, their values, and arithmetic on them."""

from onnx_passes.datatypes.base import DataType
from onnx_passes.datatypes.types import (
    BFLOAT16,
    BINARY,
    BIPOLAR,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    TERNARY,
    FixedPoint,
    Integer,
    IntegerType,
    Interval,
    MiniFloat,
    ScaledInteger,
    parse,
    smallest_for,
    smallest_for_values,
)

__all__ = [
    "BFLOAT16",
    "BINARY",
    "BIPOLAR",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "TERNARY",
    "DataType",
    "FixedPoint",
    "Integer",
    "IntegerType",
    "Interval",
    "MiniFloat",
    "ScaledInteger",
    "parse",
    "smallest_for",
    "smallest_for_values",
]
