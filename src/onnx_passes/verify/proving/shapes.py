"""Values that are computed from shapes alone: both sides are run on the dimensions that are known.

A dimension that is not known is a number that nothing else is: where it is only moved about, it does not matter which.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment, SideBySide, shared_inputs
from onnx_passes.graph.constants import constant, constant_tensor, is_constant
from onnx_passes.graph.shapes import dims
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.congruence import disagreement
from onnx_passes.verify.proving.facts import Facts

METHOD = "shapes known before the run"
_FIRST = {
    ir.DataType.INT64: 2**40,
    ir.DataType.INT32: 2**30,
    ir.DataType.DOUBLE: 2**40,
    ir.DataType.FLOAT: 2**22,
}
"""The first placeholder of an unknown dimension in each type; the type holds all placeholders exactly."""
_LONGEST = 256
"""Bytes of a constant or an array that a computation is known by; what holds more is like nothing else."""


class _Numbers:
    """Placeholders of unknown dimensions: distinct in each type, and different from all constants.

    A cast may round a dimension or drop some of its bits, so that its result gets a placeholder of its own.
    """

    def __init__(self, taken: Collection[int]) -> None:
        self._taken = taken
        self._known: dict[tuple[ir.DataType, Hashable], int] = {}
        self._next = dict(_FIRST)
        self._used: set[tuple[ir.DataType, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, dtype: ir.DataType, key: Hashable) -> int:
        """Return the placeholder of a dimension in a type."""
        if (dtype, key) not in self._known:
            number = next(number for number in itertools.count(self._next[dtype]) if number not in self._taken)
            self._next[dtype] = number + 1
            self._known[dtype, key] = number
            self._used.add((dtype, number))
        return self._known[dtype, key]

    def cast(self, array: np.ndarray, dtype: ir.DataType) -> np.ndarray:
        """Cast numbers to a type, placeholders to the placeholders of their casts."""
        given = ir.DataType.from_numpy(array.dtype)
        made = [
            self.of(dtype, (given, int(number))) if (given, int(number)) in self._used else number
            for number in array.reshape(-1).tolist()
        ]
        return np.array(made, dtype.numpy()).reshape(array.shape)


def reads_shapes_alone(side: Fragment) -> bool:
    """Return whether a fragment reads only the shapes of its sources."""
    return all(
        _is_shape(node) for node in side.nodes if any(value in side.inputs for value in node.inputs)
    ) and not any(value in side.inputs for value in side.outputs)


def prove_shapes(old: Fragment, new: Fragment, facts: Facts) -> Proof | Unproved:
    """Run two sides that read shapes alone."""
    given: dict[ir.Value, np.ndarray] = {}
    numbers = _Numbers({number for side in (old, new) for number in _large_constants(side)})
    said: dict[str, None] = {}
    for node in (*old.nodes, *new.nodes):
        to = _rounds_to(node)
        if to is not None and node.inputs[0] in given:
            given[node.outputs[0]] = numbers.cast(given[node.inputs[0]], to)
            continue
        value = node.inputs[0] if _is_shape(node) else None
        if value is None or is_constant(value):
            continue
        found = _dimensions(value, numbers)
        if found is None:
            return Unproved(f"the number of axes of {value.name} is not known")
        first, last = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(found))
        given[node.outputs[0]] = np.array(found, np.int64)[first:last]
        said[f"{value.name} is of shape [{', '.join(map(str, dims(value) or ()))}]"] = None
    old, new = (Fragment.between((*given, *side.inputs), side.outputs) for side in (old, new))
    sides = old, new
    if numbers and (reason := _computes(sides)):
        return Unproved(reason)
    arrays = [given[value] for value in shared_inputs(sides)]
    wrong = facts.remembered(
        _computation(sides, arrays, facts),
        lambda: disagreement(*SideBySide(sides, facts.model, facts.executor)(arrays), ignores=()) or "",
    )
    if wrong:
        return Unproved(wrong)
    return Proof("proved-here", METHOD, tuple(said)[:4])


def _computation(sides: Sequence[Fragment], arrays: Sequence[np.ndarray], facts: Facts) -> Hashable | None:
    """Return a key of the results of fragments on arrays for their shared inputs; None if it holds much data."""
    shared = shared_inputs(sides)
    tensors = [tensor for side in sides for value in side.constants if (tensor := constant_tensor(value)) is not None]
    if any(held.nbytes > _LONGEST for held in (*arrays, *tensors)):
        return None
    digests = tuple((side.digest(facts.semantics), *(shared.index(value) for value in side.inputs)) for side in sides)
    return (digests, *((array.dtype, array.shape, array.tobytes()) for array in arrays))


def _is_shape(node: ir.Node) -> bool:
    return node.op_type == "Shape" and node.domain == ""


def _large_constants(side: Fragment) -> Iterator[int]:
    """Yield the constants of a side that are large enough to be mistaken for a placeholder."""
    for node in side.nodes:
        for value in node.inputs:
            held = constant(value)
            if held is not None and held.dtype.kind in "iuf":
                finite = held[np.isfinite(held)].reshape(-1)
                yield from (int(number) for number in finite[finite >= min(_FIRST.values())].tolist())


def _rounds_to(node: ir.Node) -> ir.DataType | None:
    """Return the type that a node casts to, if there are placeholders in it; None for the type of dimensions."""
    to = ir.DataType(node.attributes.get_int("to", 0)) if node.op_type == "Cast" and node.domain == "" else None
    return None if to is ir.DataType.INT64 or to not in _FIRST else to


def _dimensions(value: ir.Value, numbers: _Numbers) -> list[int] | None:
    known = dims(value)
    if known is None:
        return None
    return [
        dim if isinstance(dim, int) else numbers.of(ir.DataType.INT64, dim.value or (value, axis))
        for axis, dim in enumerate(known)
    ]


def _computes(sides: tuple[Fragment, Fragment]) -> str:
    """Return the reason if a node computes with dimensions instead of moving them; empty if none does."""
    for side in sides:
        for node in side.moving:
            moves = traits_of(node).kind == "movement" or node.op_type == "Identity" or _keeps_all(node)
            is_told = node.op_type != "Concat" and any(side.is_dynamic(value) for value in node.inputs[1:])
            if not moves or is_told:
                return f"{name_of(node)} computes with sizes that are not known"
    return ""


def _keeps_all(node: ir.Node) -> bool:
    """Return whether a node casts to the type of dimensions, which changes no placeholder."""
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == ir.DataType.INT64
