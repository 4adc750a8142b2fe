"""Nodes that read only weights, put into branches where they are many.

ONNX Runtime keeps the nodes that could run next in a list which it walks for each of them: making a session takes time
as the square of how many nodes wait for nothing. In a branch they do not stand in that list.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx
import onnx_ir as ir

from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.encode import Encoder
from onnx_passes.graph.randomness import is_random

_MANY = 1000
_IN_A_BRANCH = 100
_BIG = 2**20
"""What weights of more bytes than this become is not computed before it is read: a branch keeps all of its results."""
_ALWAYS = "//always"


def apart_from_inputs(graph: ir.Graph, fed: Collection[str | None]) -> dict[ir.Node, None]:
    """List the nodes which compute the same each time, from nothing that is fed, in order; none if they are few."""
    weights = (value for value in graph.initializers.values() if value.name not in fed)
    known = {value for value in weights if value.const_value is None or value.const_value.nbytes <= _BIG}
    apart: dict[ir.Node, None] = {}
    for node in graph:
        if all(value is None or value in known for value in node.inputs) and _is_steady(node):
            known.update(node.outputs)
            # ONNX Runtime takes the results of these for weights.
            if not is_constant_node(node):
                apart[node] = None
    return apart if len(apart) > _MANY else {}


def branch_off(graph: onnx.GraphProto, nodes: Collection[ir.Node]) -> None:
    """Add nodes to a graph, some in each branch; the branches are always taken."""
    if not nodes:
        return
    true = onnx.helper.make_tensor("true", onnx.TensorProto.BOOL, [], [True])
    # Not an initializer: these would have to be inputs in old versions.
    graph.node.append(onnx.helper.make_node("Constant", [], [_ALWAYS], value=true))
    encoder, ordered = Encoder(), list(nodes)
    for start in range(0, len(ordered), _IN_A_BRANCH):
        part = ordered[start : start + _IN_A_BRANCH]
        branch = onnx.GraphProto.FromString(encoder.nodes(part))
        branch.name = f"{_ALWAYS}{start}"
        names = [value.name for node in part for value in node.outputs if value.name]
        branch.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        # The other branch never runs, but has to agree on types.
        graph.node.append(onnx.helper.make_node("If", [_ALWAYS], names, then_branch=branch, else_branch=branch))


def _is_steady(node: ir.Node) -> bool:
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return (
        node.domain == ""
        and not is_random(node)
        and all(attribute.type not in graphs for attribute in node.attributes.values())
    )
