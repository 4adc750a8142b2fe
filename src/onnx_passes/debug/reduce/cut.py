"""Cut a model down to some of its nodes; what the others computed is given as it was recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import onnx_ir as ir

from onnx_passes.debug.reduce.case import Array, Case, declare, settle_symbols, tensor_of
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.graph.external import standing_in
from onnx_passes.verify.run.execute import Sample


class Cutter:
    """Cuts of one case, each by the positions of the nodes that stay.

    A value that a removed node computed becomes an input of the model if it depends on inputs, else an initializer:
    what was constant stays constant. All that removed nodes read becomes an output.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.nodes = list(case.model.graph)
        self._reads = [list(_reads(node)) for node in self.nodes]
        self._readers: dict[ir.Value, list[int]] = {}
        for position, values in enumerate(self._reads):
            for value in values:
                self._readers.setdefault(value, []).append(position)
        self._varying = varying(case.model)

    def keep(self, positions: Iterable[int]) -> Case | None:
        """Keep the nodes at some positions; returns nothing if a value they need was not recorded."""
        order = sorted(positions)
        kept = set(order)
        made = {value for position in order for value in self.nodes[position].outputs}
        needed = dict.fromkeys(v for position in order for v in self._reads[position] if v not in made)
        outputs = [value for position in order for value in self._outputs(self.nodes[position], kept)]
        if not outputs or not all(self._is_available(value) for value in needed):
            return None
        return self._build([self.nodes[position] for position in order], list(needed), outputs)

    def _outputs(self, node: ir.Node, kept: Collection[int]) -> list[ir.Value]:
        """Choose what is seen of a node from outside, at least something if nothing reads it."""
        readers = {value: self._readers.get(value, ()) for value in node.outputs}
        chosen = [v for v in node.outputs if v.is_graph_output() or any(reader not in kept for reader in readers[v])]
        if not chosen and not any(readers.values()):
            chosen = [value for value in node.outputs if value.name][:1]
        return chosen

    def _is_available(self, value: ir.Value) -> bool:
        if value.producer() is None or value.name in self.case.values:
            return True
        return not self.case.samples and value.type is not None

    def _build(self, nodes: Sequence[ir.Node], needed: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> Case:
        case, whole = self.case, self.case.model.graph
        recorded = {value.name or "": case.values[value.name or ""] for value in needed if value.name in case.values}
        fixed = {
            value.name or "": recorded[value.name or ""][0]
            for value in needed
            if value.producer() is not None and value not in self._varying and value.name in recorded
        }
        view = ir.GraphView(
            [value for value in needed if value.name not in fixed and (value.producer() or value.is_graph_input())],
            outputs,
            nodes=nodes,
            initializers=[value for value in needed if value.is_initializer() or value.name in fixed],
            opset_imports=dict(whole.opset_imports),
            name=whole.name,
            metadata_props=dict(whole.metadata_props),
        )
        graph = _clone_with_data(view, fixed)
        for value in (*graph.inputs, *graph.outputs, *(graph.initializers[name] for name in fixed)):
            if value.name in case.values:
                declare(value, case.values[value.name or ""])
        settle_symbols(graph.inputs, recorded)
        return Case(model_around(graph, case.model), _samples(graph, case, recorded))


def _clone_with_data(view: ir.GraphView, fixed: dict[str, Array]) -> ir.Graph:
    """Clone with data for values that become initializers, which must have them from the start."""
    computed = [value for value in view.initializers.values() if value.name in fixed]
    with standing_in({value: tensor_of(fixed[value.name or ""], value.name) for value in computed}):
        return view.clone(deep_copy=True)


def _samples(graph: ir.Graph, case: Case, recorded: dict[str, tuple[Array, ...]]) -> list[Sample]:
    names = [value.name or "" for value in graph.inputs]
    return [{name: recorded[name][number] for name in names if name in recorded} for number in range(len(case.samples))]


def model_around(graph: ir.Graph, model: ir.Model) -> ir.Model:
    """Return a model like another one with a graph of its own."""
    return ir.Model(
        graph,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=list(model.functions.values()),
        metadata_props=dict(model.metadata_props),
    )


def varying(model: ir.Model) -> set[ir.Value]:
    """Return the values that depend on inputs or on chance, in subgraphs, too."""
    found = set(model.graph.inputs)

    def visit(graph: ir.Graph) -> None:
        for node in graph:
            inner = subgraphs_of(node)
            for subgraph in inner:
                found.update(subgraph.inputs)
                visit(subgraph)
            if (
                any(value in found for value in _reads(node))
                or any(value in found for subgraph in inner for value in subgraph.outputs)
                or node.op_type.startswith(("Random", "Bernoulli", "Multinomial", "Dropout"))
            ):
                found.update(node.outputs)

    visit(model.graph)
    return found


def _reads(node: ir.Node) -> Iterable[ir.Value]:
    """Return what a node reads, what the graphs in it read from outside included."""
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs_of(node):
        inside = {graph, *graph.subgraphs()}
        for inner in graph.all_nodes():
            yield from (value for value in inner.inputs if value is not None and value.graph not in inside)
