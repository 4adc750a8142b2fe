"""C types that hold the numbers of a data type."""

from __future__ import annotations

import numpy as np

from onnx_passes.datatypes import DataType, IntegerType

_INTEGERS = {f"{sign}int{bits}_t": f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("u", "")}
"""Ordered by width, unsigned ones first."""
_FLOATS = {"FLOAT16": "_Float16", "FLOAT32": "float", "FLOAT64": "double"}
NUMPY = {**_INTEGERS, "_Float16": "float16", "float": "float32", "double": "float64"}
"""C types and the equivalent numpy types."""


def container_of(datatype: DataType) -> str:
    """Return the smallest C type that holds every value of a data type; the name of the type if there is none."""
    if isinstance(datatype, IntegerType):
        for name, dtype in _INTEGERS.items():
            limits = np.iinfo(dtype)
            if limits.min <= datatype.min and datatype.max <= limits.max:
                return name
    return _FLOATS.get(str(datatype), str(datatype))
