"""Nodes made in front of those of a model, while walking over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.names import Names


class Bench:
    """Builds nodes with ``op`` and puts them in front of the node at hand, named after what they work on."""

    def __init__(self, model: ir.Model) -> None:
        self.graph = model.graph
        self.names = Names.of(model.graph)
        self._imports = model.opset_imports
        self.op = Builder(self._imports)

    def place(self, before: ir.Node | None) -> None:
        """Put what was built in front of a node, or at the end."""
        op, self.op = self.op, Builder(self._imports)
        for value in op.initializers:
            value.name = self.names.value(value.name or "constant")
            self.graph.register_initializer(value)
        for node in op.nodes:
            given = next((value.name for value in node.inputs if value is not None and value.name), "integer")
            for output in node.outputs:
                output.name = self.names.value(output.name or f"{given}_{node.op_type.lower()}")
            node.name = self.names.node(f"{node.outputs[0].name}/{node.op_type}")
        if before is None:
            self.graph.extend(op.nodes)
        else:
            self.graph.insert_before(before, op.nodes)

    def discard(self) -> set[ir.Value]:
        """Forget what was built for the node at hand; returns the values that are no more."""
        made = {output for node in self.op.nodes for output in node.outputs} | set(self.op.initializers)
        self.op.discard()
        return made


def copy_attributes(node: ir.Node, leave_out: Iterable[str] = ()) -> dict[str, Any]:
    """Return the attributes of a node as the builder takes them."""
    left = set(leave_out)
    return {name: attribute for name, attribute in node.attributes.items() if name not in left}
