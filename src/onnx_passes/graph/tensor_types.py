"""Data type, layout and sparsity of tensors, in the quantization annotations of QONNX and FINN.

Text from a file is parsed, never evaluated: text that is not a plain literal is an error with tensor and key.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.datatypes import DataType, parse
from onnx_passes.graph import annotations

DATATYPE = "finn_datatype"
LAYOUT = "tensor_layout"
SPARSITY = "tensor_sparsity"
_BOUNDS = "onnx_passes.input_range"

_LONGEST = 10_000


def datatype_of(value: ir.Value) -> DataType | None:
    """Return the annotated data type of a value; None if there is none."""
    text = annotations.get(value).get(DATATYPE)
    if text is None:
        return None
    try:
        return parse(text)
    except UsageError as error:
        raise ModelError(error.what, where=_where(value, DATATYPE), hint=error.hint) from error


def set_datatype(value: ir.Value, datatype: DataType | str | None) -> bool:
    """Annotate a value with a data type, or remove it with None; return whether that changed anything."""
    return _write(value, DATATYPE, None if datatype is None else str(parse(str(datatype))))


def declared_bounds(value: ir.Value) -> tuple[float, float] | None:
    """Return the declared least and greatest number of an input; None if there are none."""
    text = value.metadata_props.get(_BOUNDS)
    low, separator, high = (text or "").partition(":")
    try:
        found = (float(low), float(high)) if separator else None
    except ValueError:
        found = None
    if text is not None and (found is None or not found[0] <= found[1]):
        raise ModelError(f"the text {text!r} is not a range", where=_where(value, _BOUNDS), hint="write it as 0:255")
    return found


def set_declared_bounds(value: ir.Value, bounds: tuple[float, float] | None) -> None:
    """Declare the range of an input, or remove it."""
    if bounds is None:
        value.metadata_props.pop(_BOUNDS, None)
    else:
        value.metadata_props[_BOUNDS] = f"{bounds[0]!r}:{bounds[1]!r}"


def layout_of(value: ir.Value) -> tuple[str, ...] | None:
    """Return the annotated names of the axes, such as ``("N", "H", "W", "C")``; None if there are none."""
    found = _literal(value, LAYOUT)
    if found is None:
        return None
    axes = cast("Sequence[object]", found) if isinstance(found, list | tuple) else [found]
    if not isinstance(found, list | tuple) or not all(isinstance(axis, str) for axis in axes):
        raise _malformed(value, LAYOUT, "is not a list of names of axes", "write it as ['N', 'C', 'H', 'W']")
    return tuple(map(str, axes))


def set_layout(value: ir.Value, layout: Sequence[str] | None) -> bool:
    """Annotate a value with the names of its axes, or remove them with None; return whether that changed anything."""
    return _write(value, LAYOUT, None if layout is None else str(list(layout)))


def sparsity_of(value: ir.Value) -> dict[str, Any] | None:
    """Return the annotated sparsity of a tensor, as in ``{"dw": {"kernel_shape": [3, 3]}}``; None if none."""
    found = _literal(value, SPARSITY)
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in cast("dict[object, object]", found)):
        raise _malformed(value, SPARSITY, "is not a mapping", "write it as {'dw': {'kernel_shape': [3, 3]}}")
    return cast("dict[str, Any]", found)


def set_sparsity(value: ir.Value, sparsity: Mapping[str, Any] | None) -> bool:
    """Annotate a value with its sparsity, or remove it with None; return whether that changed anything."""
    return _write(value, SPARSITY, None if sparsity is None else str(dict(sparsity)))


def _literal(value: ir.Value, key: str) -> object:
    text = annotations.get(value).get(key)
    if text is None:
        return None
    if len(text) > _LONGEST:
        raise _malformed(value, key, "is too long to be read", f"at most {_LONGEST} characters are")
    try:
        return cast("object", ast.literal_eval(text.strip()))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise _malformed(value, key, "is not a plain literal", "text in a model is read, never evaluated") from error


def _write(value: ir.Value, key: str, text: str | None) -> bool:
    known = annotations.get(value)
    if known.get(key) == text:
        return False
    annotations.set(value, {k: t for k, t in known.items() if k != key} | ({} if text is None else {key: text}))
    return True


def _malformed(value: ir.Value, key: str, what: str, hint: str) -> ModelError:
    text = annotations.get(value)[key]
    shown = text if len(text) <= 60 else text[:60] + "…"
    return ModelError(f"the text {shown!r} {what}", where=_where(value, key), hint=hint)


def _where(value: ir.Value, key: str) -> str:
    return f"{key} of tensor '{value.name}'"


def integer_limits(dtype: ir.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of an integer type, truth values counted among them."""
    import ml_dtypes

    if dtype is ir.DataType.BOOL:
        return 0, 1
    info = ml_dtypes.iinfo(dtype.numpy())
    return int(info.min), int(info.max)
