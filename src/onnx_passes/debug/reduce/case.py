"""Failing case: a model, the samples it fails on, the recorded values of a run, and cuts of the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.fragment.fragment import Fragment, operands
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.edits import detach, replace_value, subgraphs_of
from onnx_passes.graph.names import Names
from onnx_passes.verify.run.execute import Executor, Sample

Branch = tuple[int, str]
"""The position of an If node in its graph, and the attribute that holds a branch."""
BRANCHES = ("then_branch", "else_branch")


def branching(model: ir.Model) -> list[tuple[int, ir.Node]]:
    """List the If nodes of a model's graph, with their positions."""
    return [(at, node) for at, node in enumerate(model.graph) if (node.domain, node.op_type) == ("", "If")]


def taken_branches(model: ir.Model, values: Mapping[str, Sequence[np.ndarray[Any, np.dtype[Any]]]]) -> list[Branch]:
    """List the branches that every sample takes, as far as conditions are known."""
    taken: list[Branch] = []
    for at, node in branching(model):
        condition = node.inputs[0]
        seen = values.get(condition.name or "", ()) if condition is not None else ()
        constant = condition.const_value if condition is not None else None
        truths = {bool(array.all()) for array in seen}
        if not truths and constant is not None:
            truths = {bool(constant.numpy().all())}
        if len(truths) == 1:
            taken.append((at, BRANCHES[0] if truths.pop() else BRANCHES[1]))
    return taken


def hoisted(model: ir.Model, branches: Sequence[Branch]) -> None:
    """Replace If nodes by one of their branches; names of the branch are kept where they are free."""
    graph = model.graph
    nodes, names = list(graph), Names.of(model.graph)
    for at, name in branches:
        node = nodes[at]
        others = [node.attributes[key].as_graph() for key in BRANCHES if key != name and key in node.attributes]
        branch = node.attributes[name].as_graph()
        for other in others:
            for inner in other.all_nodes():
                detach(inner)
        _move(graph, node, branch, names)


def _move(graph: ir.Graph, node: ir.Node, branch: ir.Graph, names: Names) -> None:
    outputs = list(branch.outputs)
    branch.outputs.clear()
    initializers = list(branch.initializers.values())
    branch.initializers.clear()
    for value in initializers:
        if value.name in graph.initializers:
            value.name = names.value(value.name or "")
        graph.initializers.add(value)
    inner = list(branch)
    branch.remove(inner)
    graph.insert_before(node, inner)
    for old, new in zip(node.outputs, outputs, strict=True):
        replace_value(old, new, names)
    graph.remove(node, safe=True)


Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[str, tuple[Array, ...]]
"""What a value held, by its name: one array for each sample."""


@dataclass(frozen=True)
class FailingCase:
    """A model with the samples it fails on; ``values`` is empty if it cannot be run."""

    model: ir.Model
    samples: list[Sample]
    values: Mapping[str, tuple[Array, ...]] = field(default_factory=Values)

    @property
    def nodes(self) -> int:
        """Return the number of nodes, those of subgraphs and functions included."""
        inside = sum(1 for function in self.model.functions.values() for _ in function.all_nodes())
        return inside + sum(1 for _ in self.model.graph.all_nodes())


def record(model: ir.Model, samples: Sequence[Sample], executor: Executor) -> Values | None:
    """Run a model and record all its values, those of branches that are taken included; None if it cannot run."""
    values = _run(model, samples, executor)
    if values is None:
        return None
    branches = taken_branches(model, values)
    if branches:
        flat = copy_model(model)
        hoisted(flat, branches)
        values = {**(_run(flat, samples, executor) or {}), **values}
    return values


def _run(model: ir.Model, samples: Sequence[Sample], executor: Executor) -> Values | None:
    results = [value for node in model.graph for value in node.outputs if value.name]
    known = [value for value in results if isinstance(value.type, ir.TensorType)]
    tensors = [value for value in results if value.type is None or isinstance(value.type, ir.TensorType)]
    for wanted in (tensors, known, ()):
        try:
            ready = executor.prepare(model, also=wanted)
            runs = [ready.run(sample) for sample in samples]
        except OnnxPassesError:
            # ONNX Runtime cannot hand out values of some types, which only shows in a run.
            continue
        given = {name: tuple(sample[name] for sample in samples) for name in _common(samples)}
        return given | {
            name: tuple(run[name] for run in runs)
            for name in _common(runs)
            if all(isinstance(cast(object, run[name]), np.ndarray) for run in runs)
        }
    return None


def _common(samples: Sequence[Sample]) -> list[str]:
    return [name for name in samples[0] if all(name in sample for sample in samples)] if samples else []


def dtype_of(array: Array) -> ir.DataType:
    """Return the element type of an array."""
    return ir.DataType.STRING if array.dtype.kind in "OUS" else ir.DataType.from_numpy(array.dtype)


def tensor_of(array: Array, name: str | None) -> ir.TensorProtocol:
    """Make a tensor of an array, texts included."""
    if dtype_of(array) is not ir.DataType.STRING:
        return ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1).tolist()]
    return ir.StringTensor(texts, shape=ir.Shape(array.shape), name=name)


def declare(value: ir.Value, arrays: Sequence[Array]) -> None:
    """Set the type and shape of a value to those of recorded arrays; a declared shape that fits is kept."""
    dtype = dtype_of(arrays[0])
    if value.dtype is not dtype or not isinstance(value.type, ir.TensorType):
        value.type = ir.TensorType(dtype)
    if value.shape is None or not all(_fits(value.shape, array.shape) for array in arrays):
        value.shape = seen_shape(arrays)


def seen_shape(arrays: Sequence[Array]) -> ir.Shape:
    """Return the shape of arrays; a dimension in which they differ is dynamic."""
    sizes = zip(*(array.shape for array in arrays), strict=True)
    return ir.Shape([size[0] if len(set(size)) == 1 else None for size in sizes])


def _fits(declared: ir.Shape, shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        dim == size if isinstance(dim, int) else dim.value is not None
        for dim, size in zip(declared, shape, strict=True)
    )


def settle_symbols(inputs: Iterable[ir.Value], values: Mapping[str, Sequence[Array]]) -> None:
    """Make dimensions static if their symbolic name has two sizes in one sample."""
    ports = [(value, values[value.name or ""]) for value in inputs if value.name in values and value.shape is not None]
    sizes: dict[tuple[str, int], set[int]] = {}
    for value, arrays in ports:
        for axis, dim in enumerate(cast(ir.Shape, value.shape)):
            for number, array in enumerate(arrays):
                sizes.setdefault((str(dim), number), set()).add(array.shape[axis])
    torn = {name for (name, _), found in sizes.items() if len(found) > 1}
    for value, arrays in ports:
        if any(str(dim) in torn and not isinstance(dim, int) for dim in cast(ir.Shape, value.shape)):
            value.shape = seen_shape(arrays)


def refitted(case: FailingCase, executor: Executor) -> FailingCase | None:
    """Run a changed model and declare the types and shapes that occur; None if it does not run."""
    graph = case.model.graph
    results = [value for inner in (graph, *graph.subgraphs()) for node in inner for value in node.outputs]
    declared = {value: value.shape for value in results if value.shape is not None}
    for value in declared:
        value.shape = None
    values = record(case.model, case.samples, executor)
    if values is None:
        return None
    for value, shape in declared.items():
        if value.name in values:
            value.shape = shape
            declare(value, values[value.name])
    for value in graph.outputs:
        if value.name in values:
            declare(value, values[value.name])
    return FailingCase(case.model, case.samples, values)


class Cutter:
    """Cuts of one case, each by the positions of the nodes that stay.

    A value that a removed node computed becomes an input of the model if it depends on inputs, else an initializer:
    what was constant stays constant. All that removed nodes read becomes an output.
    """

    def __init__(self, case: FailingCase) -> None:
        self.case = case
        self.nodes = list(case.model.graph)
        self._readers: dict[ir.Value, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for value in operands(node):
                self._readers.setdefault(value, []).append(position)
        self._varying = varying(case.model)

    def keep(self, positions: Iterable[int]) -> FailingCase | None:
        """Keep the nodes at some positions; return None if a value that they need was not recorded."""
        order = sorted(positions)
        kept = set(order)
        outputs = [value for position in order for value in self._outputs(self.nodes[position], kept)]
        fragment = Fragment.of((self.nodes[position] for position in order), outputs)
        return self._build(fragment) if outputs and all(map(self._is_available, fragment.inputs)) else None

    def _outputs(self, node: ir.Node, kept: Collection[int]) -> list[ir.Value]:
        """Return the outputs of a node that are read outside the kept nodes; its first output if nothing reads any."""
        readers = {value: self._readers.get(value, ()) for value in node.outputs}
        chosen = [v for v in node.outputs if v.is_graph_output() or any(reader not in kept for reader in readers[v])]
        if not chosen and not any(readers.values()):
            chosen = [value for value in node.outputs if value.name][:1]
        return chosen

    def _is_available(self, value: ir.Value) -> bool:
        if value.producer() is None or value.name in self.case.values:
            return True
        return not self.case.samples and value.type is not None

    def _build(self, fragment: Fragment) -> FailingCase:
        case = self.case
        recorded = {str(v.name): case.values[str(v.name)] for v in fragment.inputs if v.name in case.values}
        fixed = {
            value: tensor_of(recorded[str(value.name)][0], value.name)
            for value in fragment.inputs
            if value.producer() is not None and value not in self._varying and value.name in recorded
        }
        model = fragment.model(case.model, given=fixed)
        graph = model.graph
        for value in (*graph.inputs, *graph.outputs, *(graph.initializers[str(value.name)] for value in fixed)):
            if value.name in case.values:
                declare(value, case.values[str(value.name)])
        settle_symbols(graph.inputs, recorded)
        return FailingCase(model, _samples(graph, case, recorded))


def _samples(graph: ir.Graph, case: FailingCase, recorded: dict[str, tuple[Array, ...]]) -> list[Sample]:
    names = [value.name or "" for value in graph.inputs]
    return [{name: recorded[name][number] for name in names if name in recorded} for number in range(len(case.samples))]


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
                any(value in found for value in operands(node))
                or any(value in found for subgraph in inner for value in subgraph.outputs)
                or node.op_type.startswith(("Random", "Bernoulli", "Multinomial", "Dropout"))
            ):
                found.update(node.outputs)

    visit(model.graph)
    return found
