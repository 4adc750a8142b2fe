"""Vectors that are too long to follow their elements: shapes and axes are short, and only those matter.

Both engines carry the contents of small vectors along; a few dozen nodes can make one that no memory holds.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.measure import count_elements
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant, constant_tensor

_LONGEST = 2**16
"""Elements of a vector up to which they are followed."""
_LONGEST_WEIGHT = 2**22
"""Elements of a weight of one axis up to which onnx may make up a dimension for each."""


def makes_long_vectors(graph: ir.Graph) -> bool:
    """Tell whether constants are put together to a vector that is too long to follow its elements, or are one."""
    weights = (value.const_value for value in graph.initializers.values())
    if any(
        tensor is not None and len(tensor.shape) == 1 and count_elements(tensor) > _LONGEST_WEIGHT for tensor in weights
    ):
        return True
    lengths: dict[ir.Value, int] = {}
    for node in all_nodes(graph):
        if node.domain != "" or node.op_type not in ("Concat", "Range"):
            continue
        if node.op_type == "Range":
            length = _range_length(node)
        else:
            length = sum(_length(value, lengths) for value in node.inputs)
        if length > _LONGEST:
            return True
        lengths[node.outputs[0]] = length
    return False


def length_of_long_vector(node: ir.Node) -> int | None:
    """Return the length of what a node concatenates, if it is too long to follow its elements."""
    if node.op_type != "Concat" or node.domain != "":
        return None
    sizes = [_vector_size(value) for value in node.inputs]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) and sum(known) > _LONGEST else None


def _vector_size(value: ir.Value | None) -> int | None:
    if value is None or value.shape is None or len(value.shape) != 1:
        return None
    size = value.shape[0]
    return size if isinstance(size, int) else None


def _length(value: ir.Value | None, lengths: dict[ir.Value, int]) -> int:
    """Return how many elements of a vector are known, as far as it was followed."""
    if value is None:
        return 0
    tensor = constant_tensor(value)
    if tensor is not None:
        return tensor.size if len(tensor.shape) == 1 else 0
    return lengths.get(value) or _vector_size(value) or 0


def _range_length(node: ir.Node) -> int:
    ends = [constant(value) for value in node.inputs]
    known = [end.item() for end in ends if end is not None and end.size == 1]
    if len(known) != 3 or not known[2]:
        return 0
    start, limit, delta = known
    return max(0, int((limit - start) / delta))
