"""Interfaces of two models: names, order, number, types and shapes of inputs and outputs, and defaults of inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.hashing.content import type_key
from onnx_passes.graph.shapes import dims
from onnx_passes.graph.wording import count, type_text
from onnx_passes.proofs.inputs import has_same_default


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
