"""What a model brings with it: tensors, elements and bytes by element type, in initializers and in Constant nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.graph.constants import tensor_of_constant_node


class Weights(NamedTuple):
    """Tensors of one element type; ``in_nodes`` of the elements are held by Constant nodes."""

    tensors: int = 0
    elements: int = 0
    bytes: int = 0
    in_nodes: int = 0


def weights_of(model: ir.Model) -> dict[str, Weights]:
    """Sum up by element type, the largest first."""
    found: dict[str, Weights] = {}
    for tensor, in_node in _tensors(model):
        name = tensor.dtype.name.lower()
        tensors, elements, nbytes, in_nodes = found.get(name, Weights())
        size = tensor.size
        found[name] = Weights(tensors + 1, elements + size, nbytes + tensor.nbytes, in_nodes + size * in_node)
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _tensors(model: ir.Model) -> Iterator[tuple[ir.TensorProtocol, bool]]:
    for graph in (model.graph, *all_graphs(model.graph)):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value, False
    for node in all_nodes(model.graph):
        if node.op_type == "Constant" and not node.domain:
            tensor = tensor_of_constant_node(node)
            if tensor is not None:
                yield tensor, True
