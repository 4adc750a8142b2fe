"""Walk two graphs in parallel, from their outputs back through their producers.

Inputs, outputs and operands are ordered, so that there is never a choice: two graphs agree in everything that reaches
an output if and only if the walk completes. Nodes and values are paired one to one, so that sharing must agree, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onnx_passes.graph.hashing.content import Contents, present_inputs, subgraphs
from onnx_passes.graph.wording import (
    attribute_differences,
    count,
    describe,
    name_of,
    operator_difference,
    tensor_difference,
)

if TYPE_CHECKING:
    from collections.abc import Container

    import onnx_ir as ir

_SHOWN_STEPS = 8


@dataclass(frozen=True)
class FirstDifference:
    """The first place where two models differ: the path from an output, and the difference."""

    path: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        steps = list(self.path)
        if len(steps) > _SHOWN_STEPS:
            steps[3:-4] = [f"… {len(steps) - 7} more …"]
        return f"{' <- '.join(steps)}: {self.what}" if steps else self.what


class _Step(NamedTuple):
    """The use by which the walk reached a value: an input of a node (its number), or an output of a graph."""

    reader: ir.Node | None
    via: int | str


class Lockstep:
    """One walk over two graphs; ``nodes``, ``leaves`` and ``graphs`` hold the pairs so far."""

    def __init__(self, contents: Contents) -> None:
        self.nodes: dict[ir.Node, ir.Node] = {}
        self.leaves: dict[ir.Value, ir.Value] = {}
        self.graphs: dict[ir.Graph, ir.Graph] = {}
        self._back: dict[object, object] = {}
        self._contents = contents
        self._steps: dict[ir.Node, _Step] = {}
        self._pending: list[tuple[ir.Value, ir.Value, _Step]] = []

    def compare(self, a: ir.Graph, b: ir.Graph) -> FirstDifference | None:
        """Pair everything that reaches an output; return the first difference, None if there is none."""
        difference = self._enter(a, b, None, "")
        while difference is None and self._pending:
            difference = self._values(*self._pending.pop())
        return difference

    def covers_all(self) -> bool:
        """Return whether every node and every initializer of both graphs is paired."""
        return all(
            sum(map(len, graphs)) == len(self.nodes)
            and all(value in paired for graph in graphs for value in graph.initializers.values())
            for graphs, paired in ((self.graphs.keys(), self.leaves), (self.graphs.values(), self._back))
        )

    def _enter(self, a: ir.Graph, b: ir.Graph, holder: ir.Node | None, prefix: str) -> FirstDifference | None:
        """Pair two graphs and their inputs, and queue their outputs for comparison."""
        here = _Step(holder, prefix.rstrip())
        if len(a.inputs) != len(b.inputs):
            return self._at(here, f"{count(a.inputs, 'input')} vs {count(b.inputs, 'input')}")
        if len(a.outputs) != len(b.outputs):
            return self._at(here, f"{count(a.outputs, 'output')} vs {count(b.outputs, 'output')}")
        self.graphs[a], self._back[b] = b, a
        for position, (value_a, value_b) in enumerate(zip(a.inputs, b.inputs, strict=True)):
            self.leaves[value_a], self._back[value_b] = value_b, value_a
            step = _Step(holder, f"{prefix}input {position} '{value_a.name}'")
            if value_a.is_initializer() != value_b.is_initializer():
                owner = "a" if value_a.is_initializer() else "b"
                return self._at(step, f"has an initial value only in {owner}")
            if value_a.is_initializer():
                difference = self._constants(value_a, value_b, step)
                if difference is not None:
                    return difference
        for position in reversed(range(len(a.outputs))):
            value_a, value_b = a.outputs[position], b.outputs[position]
            step = _Step(holder, f"{prefix}output {position} '{value_a.name}'")
            self._pending.append((value_a, value_b, step))
        return None

    def _values(self, a: ir.Value, b: ir.Value, step: _Step) -> FirstDifference | None:
        producer_a, producer_b = _producer(a, self.graphs), _producer(b, self._back)
        if producer_a is None or producer_b is None:
            return self._leaves(a, b, step)
        if a.index() != b.index():
            return self._at(step, f"{describe(a)} vs {describe(b)}")
        partner = self.nodes.get(producer_a)
        if partner is producer_b:
            return None
        if partner is not None or producer_b in self._back:
            return self._at(step, self._sharing(a, b, partner, self._back.get(producer_b)))
        return self._pair(producer_a, producer_b, step)

    def _pair(self, a: ir.Node, b: ir.Node, step: _Step) -> FirstDifference | None:
        """Pair two nodes that agree by themselves; their operands are compared later."""
        self._steps[a] = step
        if self._contents.node(a) != self._contents.node(b):
            return self._explain(a, b, step)
        if a.graph is None or self.graphs.get(a.graph) is not b.graph:
            return self._at(step, f"{name_of(a)} is in another graph than {name_of(b)}")
        inputs_a, inputs_b = present_inputs(a), present_inputs(b)
        if len(inputs_a) != len(inputs_b):
            counts = f"{count(inputs_a, 'input')} vs {count(inputs_b, 'input')}"
            return self._at(step, counts, name_of(a))
        self.nodes[a], self._back[b] = b, a
        for graph_a, graph_b in zip(subgraphs(a), subgraphs(b), strict=True):
            prefix = f"attribute '{graph_a[0]}' "
            difference = self._enter(graph_a[2], graph_b[2], a, prefix)
            if difference is not None:
                return difference
        for position in reversed(range(len(inputs_a))):
            value_a, value_b = inputs_a[position], inputs_b[position]
            if value_a is not None and value_b is not None:
                self._pending.append((value_a, value_b, _Step(a, position)))
            elif value_a is not value_b:
                what = f"{describe(value_a)} vs {describe(value_b)}"
                return self._at(_Step(a, position), what)
        return None

    def _leaves(self, a: ir.Value, b: ir.Value, step: _Step) -> FirstDifference | None:
        partner = self.leaves.get(a)
        if partner is b:
            return None
        kind_a, kind_b = _kind(a, self.graphs), _kind(b, self._back)
        if kind_a != kind_b or kind_a == "input":
            return self._at(step, f"{describe(a)} vs {describe(b)}")
        if partner is not None or b in self._back:
            return self._at(step, self._sharing(a, b, partner, self._back.get(b)))
        self.leaves[a], self._back[b] = b, a
        if kind_a == "initializer":
            if a.graph is None or self.graphs.get(a.graph) is not b.graph:
                return self._at(step, f"{describe(a)} is in another graph than {describe(b)}")
            return self._constants(a, b, step)
        return None if a.name == b.name else self._at(step, f"{describe(a)} vs {describe(b)}")

    def _constants(self, a: ir.Value, b: ir.Value, step: _Step) -> FirstDifference | None:
        if a.const_value is b.const_value:
            return None
        if self._contents.initial_value(a) == self._contents.initial_value(b):
            return None
        what = tensor_difference(a.const_value, b.const_value)
        return self._at(step, what) if a.is_graph_input() else self._at(step, what, describe(a))

    def _explain(self, a: ir.Node, b: ir.Node, step: _Step) -> FirstDifference:
        what = operator_difference(a, b)
        if what is not None:
            return self._at(step, what)
        name, what = next(iter(attribute_differences(a, b, self._contents).items()))
        return self._at(step, what, f"{name_of(a)} attribute '{name}'")

    def _sharing(self, a: ir.Value, b: ir.Value, of_a: object, of_b: object) -> str:
        """Describe two values that differ, at least one of which is already paired with another one."""
        if not self._look_alike(a, b):
            return f"{describe(a)} vs {describe(b)}"
        if of_a is None:
            return f"b reads {describe(b)} again, a reads another one, {describe(a)}"
        if of_b is None:
            return f"a reads {describe(a)} again, b reads another one, {describe(b)}"
        return f"{describe(a)} vs {describe(b)}, which elsewhere stand for others"

    def _look_alike(self, a: ir.Value, b: ir.Value) -> bool:
        producer_a, producer_b = a.producer(), b.producer()
        if producer_a is None or producer_b is None:
            return self._contents.initial_value(a) == self._contents.initial_value(b)
        return self._contents.node(producer_a) == self._contents.node(producer_b)

    def _at(self, step: _Step, what: str, *more: str) -> FirstDifference:
        """Return a difference with the path from an output of the outermost graph."""
        path = [*reversed(more)]
        while True:
            reader = step.reader
            via = f"input {step.via}" if isinstance(step.via, int) else step.via
            path.append(via if reader is None else f"{name_of(reader)} {via}".rstrip())
            if reader is None:
                break
            step = self._steps[reader]
        return FirstDifference(tuple(text for text in reversed(path) if text), what)


def _producer(value: ir.Value, known: Container[object]) -> ir.Node | None:
    """Return the node that computes a value; None if it is outside of the walked graphs."""
    producer = value.producer()
    return producer if producer is not None and producer.graph in known else None


def _kind(value: ir.Value, known: Container[object]) -> str:
    if value.producer() is not None or value.graph not in known:
        return "node" if _producer(value, known) else "outside"
    if value.is_graph_input():
        return "input"
    return "initializer" if value.is_initializer() else "outside"
