"""Elements that keep their order: two sides that only write them in another shape are equal if the shapes are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import Dim, dims, same_dim
from onnx_passes.proofs.proof import Proof, Unproved

METHOD = "order of elements and shape"
_KEEPING = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_REST = -1
Dims = Sequence[Dim]


def keeps_order(side: Fragment) -> bool:
    """Return whether the single result of a fragment is one of its inputs in another shape."""
    return len(side.outputs) == 1 and _origin(side) is not None


def prove_reshaped(old: Fragment, new: Fragment) -> Proof | Unproved:
    """Compare the shapes that two sides give to the same elements."""
    origins = _origin(old), _origin(new)
    if origins[0] is not origins[1]:
        return Unproved("the elements come from different values")
    before = dims(old.outputs[0]) or _shape(old, old.outputs[0])
    after = _shape(new, new.outputs[0], meant=before)
    if before is None or after is None:
        return Unproved("the shape is not known")
    if len(before) != len(after) or not all(map(same_dim, before, after)):
        return Unproved(f"[{_text(before)}] and [{_text(after)}] are not known to be one shape")
    some = "" if all(isinstance(dim, int) for dim in before) else ", where no size is 0"
    return Proof(
        "proved-here", METHOD, (f"no element leaves its place, and both are of shape [{_text(before)}]{some}",)
    )


def _text(found: Dims) -> str:
    return ", ".join(map(str, found))


def _origin(side: Fragment) -> ir.Value | None:
    """Follow a result back to where its elements come from."""
    value: ir.Value | None = side.outputs[0]
    inside = set(side.nodes)
    while value is not None:
        node = value.producer()
        if node is None or node not in inside:
            return value if value in side.inputs else None
        value = node.inputs[0] if node.op_type in _KEEPING and node.domain == "" else None
    return None


def _shape(side: Fragment, value: ir.Value, meant: Dims | None = None) -> Dims | None:
    """Compute the shape of a value from its producers; open sizes are taken from ``meant``, the expected shape."""
    node = value.producer()
    if node is None or node not in side.nodes:
        return dims(value)
    given = _shape(side, node.inputs[0]) if node.inputs[0] is not None else None
    if given is None or node.op_type == "Identity":
        return given
    if node.op_type == "Reshape":
        return _of_reshape(node, given, meant)
    if node.op_type == "Flatten":
        return None
    axes = _axes(node)
    if axes is None:
        return None
    if node.op_type == "Unsqueeze":
        places = {axis % (len(given) + len(axes)) for axis in axes}
        rest = iter(given)
        return [1 if place in places else next(rest) for place in range(len(given) + len(axes))]
    gone = {axis % len(given) for axis in axes}
    return [dim for place, dim in enumerate(given) if place not in gone]


def _axes(node: ir.Node) -> list[int] | None:
    attribute = node.attributes.get("axes")
    if attribute is not None:
        return list(attribute.as_ints())
    held = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if held is None else [int(axis) for axis in held.reshape(-1)]


def _of_reshape(node: ir.Node, given: Dims, meant: Dims | None) -> Dims | None:
    held = constant(node.inputs[1])
    if held is None:
        return None
    found: list[Dim] = []
    for place, size in enumerate(int(size) for size in held.reshape(-1)):
        if size == 0 and not node.attributes.get_int("allowzero", 0):
            if place >= len(given):
                return None
            found.append(given[place])
        else:
            found.append(size)
    if _REST not in found:
        return found
    place = found.index(_REST)
    others = [dim for each, dim in enumerate(found) if each != place]
    if all(isinstance(dim, int) for dim in (*given, *others)):
        total, known = (math.prod(int(str(dim)) for dim in each) for each in (given, others))
        return None if not known else [*found[:place], total // known, *found[place + 1 :]]
    if any(dim == 0 for dim in others):
        return None
    left = list(given)
    for dim in others:
        match = next((each for each in left if same_dim(each, dim)), None)
        if match is None:
            break
        left.remove(match)
    else:
        if len(left) <= 1:
            return [*found[:place], left[0] if left else 1, *found[place + 1 :]]
    # As many elements in a shape of which all sizes but one are as meant: so is this one.
    fits = meant is not None and len(meant) == len(found)
    return [*found[:place], meant[place], *found[place + 1 :]] if fits and meant is not None else None
