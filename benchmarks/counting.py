"""Count nodes, the same way for models before and after, whoever made them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def operators(model: Any) -> Counter[str]:
    """Count the nodes of a ModelProto by operator, without Constant nodes.

    Nodes of subgraphs count as others do, those of functions wherever the function is called.
    """
    functions = {(function.domain, function.name): function for function in model.functions}

    def counted(nodes: Iterable[Any]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for node in nodes:
            function = functions.get((node.domain, node.op_type))
            if function is not None:
                counts += counted(function.node)
            elif node.op_type != "Constant":
                counts[node.op_type] += 1
                for attribute in node.attribute:
                    for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                        counts += counted(graph.node)
        return counts

    return counted(model.graph.node)


def operators_in(path: str | Path) -> Counter[str]:
    """Count the nodes of a model in a file."""
    import onnx

    return operators(onnx.load(path, load_external_data=False))
