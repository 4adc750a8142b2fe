"""Values that are computed from shapes alone: both sides are run on the dimensions that are known.

A dimension that is not known is a number that nothing else is: where it is only moved about, it does not matter which.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.graph.shapes import dims
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.agreement import disagreement
from onnx_passes.verify.proving.alike import written
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.running import SideBySide
from onnx_passes.verify.proving.sides import Side, shared_sources

METHOD = "shapes known before the run"
_UNKNOWN = 2**40
"""From here on, or from beyond all constants, numbers stand for dimensions that are not known."""


def reads_shapes_alone(side: Side) -> bool:
    """Tell whether a side reads nothing of its sources but their shapes."""
    return all(
        _is_shape(node) for node in side.nodes if any(value in side.sources for value in node.inputs)
    ) and not any(value in side.sources for value in side.results)


def prove_shapes(old: Side, new: Side, facts: Facts) -> Proof | Unproved:
    """Run two sides that read shapes alone."""
    given: dict[ir.Value, np.ndarray] = {}
    numbers: dict[object, int] = {}
    unknown = max(_UNKNOWN, *map(_largest, (old, new))) + 1
    said: dict[str, None] = {}
    for node in (*old.nodes, *new.nodes):
        value = node.inputs[0] if _is_shape(node) else None
        if value is None or is_constant(value):
            continue
        found = _dimensions(value, numbers, unknown)
        if found is None:
            return Unproved(f"the number of axes of {value.name} is not known")
        first, last = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(found))
        given[node.outputs[0]] = np.array(found, np.int64)[first:last]
        said[f"{value.name} is of shape [{', '.join(map(str, dims(value) or ()))}]"] = None
    sides = (_behind(old, given), _behind(new, given))
    if numbers and (reason := _computes(sides)):
        return Unproved(reason)
    arrays = [given[value] for value in shared_sources(sides)]
    wrong = facts.remembered(
        written(sides, arrays), lambda: disagreement(*SideBySide(sides, facts)(arrays), ignores=()) or ""
    )
    if wrong:
        return Unproved(wrong)
    return Proof("proved-here", METHOD, tuple(said)[:4])


def _is_shape(node: ir.Node) -> bool:
    return node.op_type == "Shape" and node.domain == ""


def _largest(side: Side) -> int:
    """Return the largest of the integers that a side holds."""
    held = (constant(value) for node in side.nodes for value in node.inputs)
    return max(
        (int(array.max()) for array in held if array is not None and array.size and array.dtype.kind == "i"), default=0
    )


def _dimensions(value: ir.Value, numbers: dict[object, int], unknown: int) -> list[int] | None:
    known = dims(value)
    if known is None:
        return None
    return [
        dim if isinstance(dim, int) else numbers.setdefault(dim.value or (value, axis), unknown + len(numbers))
        for axis, dim in enumerate(known)
    ]


def _behind(side: Side, given: dict[ir.Value, np.ndarray]) -> Side:
    nodes = tuple(node for node in side.nodes if node.outputs[0] not in given)
    return Side(nodes, side.results, tuple(value for node in side.nodes for value in node.outputs if value in given))


def _computes(sides: tuple[Side, Side]) -> str:
    """Say what does more with dimensions than to move them."""
    for side in sides:
        for node in side.moving:
            moves = traits_of(node).kind == "movement" or node.op_type == "Identity" or _keeps_all(node)
            is_told = node.op_type != "Concat" and any(side.is_dynamic(value) for value in node.inputs[1:])
            if not moves or is_told:
                return f"{name_of(node)} computes with sizes that are not known"
    return ""


def _keeps_all(node: ir.Node) -> bool:
    """Tell whether a node casts to a type that holds all dimensions, and no two as one."""
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == ir.DataType.INT64
