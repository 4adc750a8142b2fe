"""What inferences of one run found, so that each visits only nodes that are other than the last one left them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

Facts = tuple[object, ...]


class Memory:
    """Nodes as an inference left them, and the elements of vectors that it followed, as ``constants`` if all are known.

    All that a rule reads and writes is compared, so that it does not matter who changed the model, and how. Nodes that
    hold graphs, and calls of functions, are never known: their results depend on more than what is beside them.
    ``has_checked`` says that the shapes that the model declared have been compared with what operators make of inputs.
    """

    def __init__(self) -> None:
        self.has_checked = False
        self.elements: dict[ir.Value, list[int | ir.SymbolicDim]] = {}
        self.constants: dict[ir.Value, ir.TensorProtocol] = {}
        self._nodes: dict[ir.Node, Facts] = {}
        self._opsets: dict[str, int] = {}

    def begin(self, opsets: Mapping[str, int]) -> None:
        """Get ready for an inference; what was found by the rules of other versions is forgotten."""
        if self._opsets != opsets:
            self._opsets = dict(opsets)
            for known in (self.elements, self.constants, self._nodes):
                known.clear()

    def knows(self, node: ir.Node) -> bool:
        """Tell whether nothing that a rule would read or write has changed since."""
        facts = self._nodes.get(node)
        return facts is not None and facts == self._facts(node)

    def forget(self, node: ir.Node) -> None:
        """Forget the vectors that a node made: a rule is about to be asked again."""
        for value in node.outputs:
            self.elements.pop(value, None)
            self.constants.pop(value, None)

    def note(self, node: ir.Node) -> None:
        """Remember a node that a rule was asked about."""
        self._nodes[node] = self._facts(node)

    def _facts(self, node: ir.Node) -> Facts:
        facts: list[object] = [node.op_type, node.domain, *node.attributes.data.values()]
        for value in node.inputs:
            if value is None:
                facts.append(None)
                continue
            tensor = value.const_value
            if tensor is None:
                if (producer := value.producer()) is not None and producer.op_type == "Constant":
                    facts.extend(producer.attributes.data.values())
                facts.append(self.elements.get(value))
            shape = value.shape
            facts += (value, value.type, tensor, None if shape is None else shape.dims)
        for value in node.outputs:
            shape = value.shape
            facts += (value.type, None if shape is None else shape.dims)
        return tuple(facts)
