"""The interfaces of two models that are to be compared: which inputs are the same, and how results differ in form."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.graph.shapes import static_shape
from onnx_passes.proofs.algebra import Algebra, Tensor, UnsupportedError


def paired_inputs(before: ir.Model, after: ir.Model) -> list[int]:
    """Return for each input of the second model the place of the same one in the first, by name, else by order."""
    ours, theirs = before.graph.inputs, after.graph.inputs
    names = {value.name: index for index, value in enumerate(ours)}
    by_name = all(value.name in names for value in theirs)
    if not by_name and len(ours) != len(theirs):
        raise UnsupportedError("the models have different inputs")
    found = [names[value.name] if by_name else index for index, value in enumerate(theirs)]
    for value, index in zip(theirs, found, strict=True):
        other = ours[index]
        if value.dtype is not other.dtype or static_shape(value) != static_shape(other):
            raise UnsupportedError(f"the input '{value.name}' has another type or shape")
        if not has_same_default(value, other):
            raise UnsupportedError(f"the input '{value.name}' has another default")
    return found


def has_same_default(one: ir.Value, other: ir.Value) -> bool:
    """Tell whether who leaves an input out gets the same."""
    a, b = one.const_value, other.const_value
    if a is None or b is None or a is b:
        return a is b
    return a.dtype is b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def variables(algebra: Algebra, model: ir.Model) -> list[Tensor]:
    """Make variables for the inputs of a model."""
    made: list[Tensor] = []
    for value in model.graph.inputs:
        shape, dtype = static_shape(value), value.dtype
        if shape is None or dtype is None:
            raise UnsupportedError(f"type or shape of '{value.name}' is not known")
        made.append(Tensor(dtype, None, algebra.variable(value.name or "", dtype, shape)))
    return made


def interface_difference(model: ir.Model, a: Sequence[Tensor], b: Sequence[Tensor]) -> str:
    """Say how the outputs differ in number, type or shape."""
    if len(a) != len(b):
        return f"{len(a)} outputs become {len(b)}"
    for value, one, other in zip(model.graph.outputs, a, b, strict=True):
        if one.dtype is not other.dtype:
            return f"'{value.name}' becomes {other.dtype.name}, and was {one.dtype.name}"
        if one.shape != other.shape:
            return f"'{value.name}' becomes {list(other.shape)}, and was {list(one.shape)}"
    return ""
