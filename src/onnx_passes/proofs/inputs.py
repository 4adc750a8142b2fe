"""Two models side by side: which inputs are the same, how interfaces and results differ, what equal terms assume."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.hashing.content import type_key
from onnx_passes.graph.shapes import dims, static_shape
from onnx_passes.graph.wording import count, type_text
from onnx_passes.numbers.algebra import Algebra, Tensor, UnsupportedError
from onnx_passes.numbers.terms import Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.ops.semantics.table import POOLING
from onnx_passes.proofs.proof import Assumption


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


def assumptions_of(terms: Terms, first: Evaluation, second: Evaluation) -> tuple[Assumption, ...]:
    """Return what equal terms of two models assume, so that outputs are equal bit by bit."""
    pooled = [{place for place in each.places if place.operator == POOLING} for each in (first, second)]
    moved = (first.places ^ second.places) - pooled[0] - pooled[1]
    elements = sorted({place.operator for place in moved if not place.sums})
    sums = sorted({place.operator for place in moved if place.sums})
    found = [Assumption(f"{name} gives an element the same bits wherever it is", "equal-in-reals") for name in elements]
    if sums:
        found.append(Assumption(f"{', '.join(sums)}: the same sums are rounded alike in any place", "equal-in-reals"))
    if all(pooled) and pooled[0] != pooled[1]:
        found.append(
            Assumption("MaxPool treats NaN alike, wherever they are and whatever its attributes", "equal-in-reals")
        )
    return (*(Assumption(text) for text in sorted(terms.assumed)), *found)


def model_interface_difference(before: ir.Model, after: ir.Model) -> str:
    """Return the first difference between the interfaces of two models, or an empty text.

    Inputs must have the same static dimensions, as runtimes refuse others. Dimensions of outputs are claims, of which
    one model may make more than the other; they must not contradict each other.
    """
    return _inputs_differ(before.graph.inputs, after.graph.inputs) or _values_differ(
        "output", before.graph.outputs, after.graph.outputs, open_dims=True
    )


def lone_defaults(before: ir.Model, after: ir.Model) -> list[str]:
    """List the inputs with a default that only one of two models has: whoever leaves them out can use either."""
    names = [{value.name for value in model.graph.inputs} for model in (before, after)]
    inputs = (value for model in (before, after) for value in model.graph.inputs if value.is_initializer())
    return [str(value.name) for value in inputs if value.name in names[0] ^ names[1]]


def without_inputs(model: ir.Model, names: Collection[str]) -> ir.Model:
    """Copy a model without some inputs, which become constants of their defaults."""
    if not names:
        return model
    copied = copy_model(model)
    for value in [value for value in copied.graph.inputs if value.name in names]:
        copied.graph.inputs.remove(value)
    return copied


def _inputs_differ(before: Sequence[ir.Value], after: Sequence[ir.Value]) -> str:
    found = _values_differ("input", before, after, open_dims=False)
    if found:
        return found
    other = next((a for a, b in zip(before, after, strict=True) if not has_same_default(a, b)), None)
    return "" if other is None else f"the default of input '{other.name}' is another one"


def _values_differ(noun: str, before: Sequence[ir.Value], after: Sequence[ir.Value], *, open_dims: bool) -> str:
    if len(before) != len(after):
        return f"{count(before, noun)} before, {count(after, noun)} after"
    for place, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.name != b.name:
            return f"{noun} {place} is '{a.name}' before, '{b.name}' after"
        types = type_key(a.type), type_key(b.type)
        unknown = open_dims and None in types
        if (types[0] != types[1] and not unknown) or not _fits(a, b, open_dims=open_dims):
            texts = [type_text(value.type, value.shape) for value in (a, b)]
            return f"{noun} '{a.name}' is {texts[0]} before, {texts[1]} after"
    return ""


def _fits(a: ir.Value, b: ir.Value, *, open_dims: bool) -> bool:
    """Return whether two shapes are the same but for names of dimensions."""
    one, other = dims(a), dims(b)
    if one is None or other is None:
        return open_dims or one is other
    fixed = [[dim if isinstance(dim, int) else None for dim in shape] for shape in (one, other)]
    if len(one) != len(other):
        return False
    return all(x == y or (open_dims and None in (x, y)) for x, y in zip(*fixed, strict=True))
