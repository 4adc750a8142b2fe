"""Twins: values of another form beside those of a model, from which these are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable

import onnx_ir as ir

from onnx_passes.rewrite.editor import Editor


class Twins(ABC):
    """Lets node after node compute in another form; what it yielded is made from that, as long as somebody needs it.

    Each node is a rewrite, whose nodes ``op`` builds.
    """

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.op = editor.builder()
        self._twins: dict[ir.Value, ir.Value] = {}
        self._made: dict[Hashable, ir.Value] = {}

    @abstractmethod
    def form(self, node: ir.Node) -> ir.Value | str:
        """Build the result of a node in the other form, or say why there is none."""

    @abstractmethod
    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Build from its twin what a value of the model is."""

    @abstractmethod
    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Tell the user of a node that stays as it is."""

    def convert_all(self, rule: str) -> None:
        """Convert in the order of the graph: each node lets the next take twins."""
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
        """Return a node, and before it what restores its inputs from twins for nobody else."""
        given = [value for value in node.inputs if value is not None and self.has_twin(value)]
        alone = [value for value in given if value.consumers() == (node,) and not value.is_graph_output()]
        return [*dict.fromkeys(before for value in alone if (before := value.producer()) is not None), node]

    def replaced(self, old: ir.Value, new: ir.Value, twin: ir.Value) -> None:
        """Note that a value is restored from its twin now."""
        if new is not twin:
            self._twins[new] = twin

    def has_twin(self, value: ir.Value | None) -> bool:
        """Tell whether a value is restored from a twin."""
        return value in self._twins

    def twin(self, value: ir.Value) -> ir.Value | None:
        """Return what a value is restored from."""
        return self._twins.get(value)

    def once(self, key: Hashable, make: Callable[[], ir.Value]) -> ir.Value:
        """Make something that several nodes need, unless it is there already and still in the model."""
        made = self._made.get(key)
        if made is None or (
            made.graph is None and made not in self.op.initializers and made.producer() not in self.op.nodes
        ):
            made = self._made[key] = make()
        return made
