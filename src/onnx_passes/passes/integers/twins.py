"""Twins: integer forms of values, from which the original values are restored on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable

import onnx_ir as ir

from onnx_passes.rewrite.editor import Editor


class Twins(ABC):
    """Converts node after node to compute on twins; original results are restored from them where needed.

    Each node is one rewrite; ``op`` builds its nodes.
    """

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.op = editor.builder()
        self._twins: dict[ir.Value, ir.Value] = {}
        self._made: dict[Hashable, ir.Value] = {}

    @abstractmethod
    def form(self, node: ir.Node) -> ir.Value | str:
        """Build the twin of a node's result, or return the reason why there is none."""

    @abstractmethod
    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Build the original value from its twin."""

    @abstractmethod
    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report a node that is not converted."""

    def convert_all(self, rule: str) -> None:
        """Convert the nodes in graph order, so that each finds the twins of its operands."""
        for node in tuple(self.editor.graph):
            if node.graph is not None:
                self._convert(f"{rule} of {node.op_type}", node)
            if self.editor.stopped:
                return

    def _convert(self, rule: str, node: ir.Node) -> None:
        with self.editor.rewrite(rule, node, matched=self._with_restored(node)) as r:
            self.op = r.op
            found = self.form(node)
            if isinstance(found, str):
                r.refuse(found, at=node)
                self.note_refusal(node, found)
                return
            old = node.outputs[0]
            new = self.restored(found, old)
            r.replace(old, new)
        if r.applied:
            self.replaced(old, new, found)

    def _with_restored(self, node: ir.Node) -> list[ir.Node]:
        """Return the node, preceded by the restoring nodes that only this node reads."""
        given = [value for value in node.inputs if value is not None and self.has_twin(value)]
        alone = [value for value in given if value.consumers() == (node,) and not value.is_graph_output()]
        return [*dict.fromkeys(before for value in alone if (before := value.producer()) is not None), node]

    def replaced(self, old: ir.Value, new: ir.Value, twin: ir.Value) -> None:
        """Record the twin of a restored value."""
        if new is not twin:
            self._twins[new] = twin

    def has_twin(self, value: ir.Value | None) -> bool:
        """Return whether a value is restored from a twin."""
        return value in self._twins

    def twin(self, value: ir.Value) -> ir.Value | None:
        """Return the twin of a value; None if it has none."""
        return self._twins.get(value)

    def once(self, key: Hashable, make: Callable[[], ir.Value]) -> ir.Value:
        """Return the shared value for ``key``; make it unless it is still in the model."""
        made = self._made.get(key)
        if made is None or (
            made.graph is None and made not in self.op.initializers and made.producer() not in self.op.nodes
        ):
            made = self._made[key] = make()
        return made
