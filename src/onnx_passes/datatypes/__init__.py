"""Data types of any precision: their names, their values, and arithmetic on them."""

from onnx_passes.datatypes.base import DataType
from onnx_passes.datatypes.floats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, MiniFloat
from onnx_passes.datatypes.integers import BINARY, BIPOLAR, TERNARY, FixedPoint, Integer, IntegerType, ScaledInteger
from onnx_passes.datatypes.ranges import Interval, smallest_for, smallest_for_values
from onnx_passes.datatypes.text import parse

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
