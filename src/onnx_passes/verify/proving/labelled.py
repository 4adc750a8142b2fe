"""Data movement: both sides move numbers that are all different, so that each is seen to end in the same place.

What only moves elements does the same to any, so that one run is a proof for all values and types of the sizes at hand.
Permutations of axes do the same for any size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment, SideBySide, shared_inputs
from onnx_passes.graph.traits import traits_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.congruence import disagreement
from onnx_passes.verify.proving.facts import Facts

METHOD = "labelled run"
_MOST_ELEMENTS = 2**21
_ANY_SIZE = frozenset({"Identity", "Squeeze", "Transpose", "Unsqueeze"})
"""What does the same to axes of any size."""


def moves_alone(side: Fragment) -> bool:
    """Return whether a fragment only moves elements."""
    return not _mark(side, set())


def prove_labelled(old: Fragment, new: Fragment, facts: Facts) -> Proof | Unproved:
    """Run two sides that only move elements on labels."""
    labels: set[ir.Value] = set()
    for side in (old, new):
        _mark(side, labels)
    sources = shared_inputs((old, new))
    any_size = all(_takes_any_size(node) for side in (old, new) for node in side.moving)
    sizes = _sizes(sources, any_size=any_size)
    if isinstance(sizes, str):
        return Unproved(sizes)
    if sum(map(math.prod, sizes.values())) > _MOST_ELEMENTS:
        return Unproved("there are too many elements to follow each")
    arrays: list[np.ndarray] = []
    start = 1.0
    for value in sources:
        count = math.prod(sizes[value])
        arrays.append((start + np.arange(count, dtype=np.float64)).reshape(sizes[value]))
        start += count
    run = SideBySide(
        (old, new),
        facts.model,
        facts.executor,
        dtype_of=lambda value: ir.DataType.DOUBLE if value in labels else value.dtype,
    )
    expected, found = run(arrays)
    if wrong := disagreement(expected, found, ()):
        return Unproved(f"element {wrong}", refuted=True)
    amount = sum(array.size for array in expected)
    where = "axes of any size" if any_size else f"sizes {', '.join(str(list(size)) for size in sizes.values())}"
    return Proof("proved-here", METHOD, (f"all {amount:,} elements come from the same places, for {where}",))


def _mark(side: Fragment, labels: set[ir.Value]) -> str:
    """Find the values that hold elements of the sources; return the reason if a node does more than move them."""
    labels.update(side.inputs)
    for node in side.moving:
        held = [value in labels for value in node.inputs if value is not None]
        if not any(held):
            # Shapes, and what is computed from them, are what they are.
            continue
        if node.op_type == "Shape" and node.domain == "":
            continue
        if traits_of(node).kind != "movement" and node.op_type != "Identity":
            return f"{node.op_type} does more than to move elements"
        wanted = len(node.inputs) if node.op_type == "Concat" else 1
        if not all(held[:wanted]) or any(held[wanted:]):
            return f"{node.op_type} moves other values, too, or by what it is given"
        if node.op_type == "Pad" and (
            node.attributes.get_float("value") or any(each is not None for each in node.inputs[2:3])
        ):
            return f"{node.op_type} fills in a number"
        labels.update(node.outputs)
    return "" if all(value in labels for value in side.outputs) else "a result holds something else"


def _takes_any_size(node: ir.Node) -> bool:
    names_axes = len(node.inputs) > 1 or "axes" in node.attributes
    return node.op_type in _ANY_SIZE and (names_axes or node.op_type != "Squeeze")


def _sizes(sources: tuple[ir.Value, ...], *, any_size: bool) -> Mapping[ir.Value, tuple[int, ...]] | str:
    """Choose sizes: two or three elements are enough to tell axes apart where their sizes do not matter."""
    found: dict[ir.Value, tuple[int, ...]] = {}
    for value in sources:
        if value.shape is None:
            return "the number of axes is not known"
        sizes: list[int] = []
        for axis, dim in enumerate(value.shape):
            if not any_size and not isinstance(dim, int):
                return f"the size of axis {axis} of {value.name} is not known"
            sizes.append(dim if isinstance(dim, int) and (dim <= 1 or not any_size) else 2 + axis % 2)
        found[value] = tuple(sizes)
    return found
