"""A model put together from pieces of another one, to run them all at once on values that are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.core.records import Application
from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_model, copy_node
from onnx_passes.graph.randomness import is_random
from onnx_passes.verify.comparison.noise import rounding_bounds
from onnx_passes.verify.run.activations import Activations, Arrays
from onnx_passes.verify.run.execute import Executor, Sample
from onnx_passes.verify.ties.decisions import (
    LevelChoices,
    decides,
    last_places,
    moved_inputs,
    not_below_last_places,
    quantized_constants,
)
from onnx_passes.verify.ties.forcing import BehindLevels

_DEEPEST = 50
"""So many nodes in a row are computed again where a value was not kept."""


Values = dict[ir.Value, ir.Value]


class NotAtHandError(Exception):
    """A value that is needed is neither known nor quickly computed."""


class Pieces:
    """Collects copies of nodes; every value of the real model has one here that stands for it."""

    def __init__(self, activations: Activations) -> None:
        self.nodes: list[ir.Node] = []
        self.bytes = 0
        self._activations = activations
        self._known: Values = {}
        self._feeds: dict[ir.Value, Arrays] = {}
        self._weights: list[ir.Value] = []
        self._names = 0
        self._whole: ir.Model | None = None

    def add(self, application: Application) -> tuple[tuple[ir.Value, ...], tuple[ir.Value, ...], frozenset[str]]:
        """Copy what an application takes out and what it puts in.

        Returns what stands for old and new values, and the names of all that is computed on the way to either.
        """
        matched, copied = frozenset(application.matched), Values()
        expected = tuple(self._old(old, matched, copied) for old, _ in application.replaced)
        inside = [value for node in matched for value in node.outputs]
        own = [str(here.name) for value in inside if (here := copied.get(value) or self._known.get(value))]
        so_far = len(self.nodes)
        found = tuple(self._new(new, copied) for _, new in application.replaced)
        # From now on the old value means the new one.
        self._known.update((old, new) for (old, _), new in zip(application.replaced, found, strict=True))
        own += [str(value.name) for node in self.nodes[so_far:] for value in node.outputs]
        return expected, found, frozenset(own)

    def follow(self, replaced: Iterable[tuple[ir.Value, ir.Value]]) -> None:
        """Let new values mean what the old ones do."""
        self._known.update((new, self._known[old]) for old, new in replaced if old in self._known)

    def run(self, model: ir.Model, wanted: Iterable[ir.Value], executor: Executor) -> dict[ir.Value, Arrays]:
        """Run everything on all samples; returns the arrays of the wanted values. Raises ExecutionError."""
        wanted = list(wanted)
        computed = [value for value in wanted if value.producer() is not None]
        arrays = {value: self._at_hand(value) for value in wanted if value.producer() is None}
        if computed:
            graph = ir.Graph(
                list(self._feeds),
                computed,
                nodes=self.nodes,
                initializers=self._weights,
                opset_imports=dict(model.opset_imports),
                name="windows",
            )
            self._whole = ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
            ready = executor.prepare(self._whole, engine="onnxruntime")
            runs = [ready.run(sample) for sample in self._samples()]
            arrays.update((value, tuple(run[str(value.name)] for run in runs)) for value in computed)
        return arrays

    def rounding(
        self, wanted: Sequence[ir.Value], at: Collection[str], numbers: Sequence[int], executor: Executor
    ) -> dict[int, Sample] | None:
        """Return how far rounding in the nodes that compute values ``at`` may move wanted ones, in some samples."""
        if self._whole is None:
            return None
        copied = copy_model(self._whole)
        values = {value.name: value for node in copied.graph for value in node.outputs}
        copied.graph.outputs[:] = found = [values[value.name] for value in wanted]
        RemoveUnusedNodesPass()(copied)
        nodes = {node for name in at if name in values and (node := values[name].producer()) is not None}
        if any(map(decides, nodes)):
            # A level that flips is no matter of rounding alone.
            return None
        samples = [sample for number, sample in enumerate(self._samples()) if number in numbers]
        bounds = rounding_bounds(copied, found, samples, executor, at=nodes)
        return None if bounds is None else dict(zip(numbers, bounds, strict=True))

    def levels_around(
        self, chosen: Sequence[ir.Value], at: Collection[str], executor: Executor
    ) -> list[dict[str, tuple[np.ndarray, np.ndarray]]] | None:
        """Return, for each sample, the least and the greatest level that values may have which decide between some.

        Rounding in the nodes that compute values ``at`` moves what is decided by. Nothing is returned where nothing is
        decided, or it cannot be run.
        """
        if self._whole is None:
            return None
        copied = copy_model(self._whole)
        values = {value.name: value for node in copied.graph for value in node.outputs}
        wanted = [values[value.name] for value in chosen]
        nodes = [node for value in wanted if (node := _chosen_by(value, at)) is not None]
        if len(nodes) < len(chosen):
            return None
        read = [value for node in nodes for value in moved_inputs(node) if value.producer() is not None]
        copied.graph.outputs[:] = list(dict.fromkeys([*read, *(node.outputs[0] for node in nodes), *wanted]))
        RemoveUnusedNodesPass()(copied)
        # What takes the place of the old nodes is gone by now.
        errs = {node for node in copied.graph if any(value.name in at for value in node.outputs)}
        if any(decides(node) and node not in nodes for node in errs):
            return None
        constants = quantized_constants(nodes)
        ready = executor.prepare(copied, engine="onnxruntime")
        runs = [constants | sample | ready.run(sample) for sample in self._samples()]
        choices = LevelChoices(copied, nodes, runs[0], executor)
        errs = {node for node in errs if not decides(node)}
        none: list[Sample] = [{} for _ in runs]
        bounds = rounding_bounds(copied, read, self._samples(), executor, at=errs) if read else none
        if bounds is None:
            return None
        levels = list(dict.fromkeys(str(node.outputs[0].name) for node in nodes))
        behind = None
        if any(value.producer() not in nodes for value in wanted):
            behind = BehindLevels(copied, levels, wanted, runs[0], executor)
        found: list[dict[str, tuple[np.ndarray, np.ndarray]]] = []
        for sample, run, bound in zip(self._samples(), runs, bounds, strict=True):
            around = {
                str(node.outputs[0].name): (low, high)
                for node, low, high in choices.around(run, _together(run, constants, bound))
            }
            if behind is not None:
                low, high = ({name: sides[side] for name, sides in around.items()} for side in (0, 1))
                around |= behind.between(sample, low, high)
            found.append(around)
        return found

    def _samples(self) -> list[Sample]:
        return [
            {str(value.name): fed[number] for value, fed in self._feeds.items()}
            for number in range(len(self._activations.samples))
        ]

    def _at_hand(self, value: ir.Value) -> Arrays:
        if value in self._feeds:
            return self._feeds[value]
        assert value.const_value is not None
        return (value.const_value.numpy(),) * len(self._activations.samples)

    def _old(self, value: ir.Value, matched: frozenset[ir.Node], copied: Values) -> ir.Value:
        """Copy the matched nodes, unless an earlier application put them in: then they are here already."""
        if value in copied:
            return copied[value]
        producer, known = value.producer(), self._known.get(value)
        if producer not in matched or (known is not None and known not in self._feeds):
            return self._resolve(value, copied, 0)
        inputs = [None if given is None else self._old(given, matched, copied) for given in producer.inputs]
        return self._copy(producer, inputs, value, copied)

    def _new(self, value: ir.Value, copied: Values) -> ir.Value:
        """Compute what takes the place of a value: what was kept of one that was there before may be out of date."""
        if value not in copied and value not in self._known and value.producer() is not None:
            try:
                return self._compute(value, copied, 0)
            except NotAtHandError:
                pass
        return self._resolve(value, copied, 0)

    def _resolve(self, value: ir.Value, copied: Values, depth: int) -> ir.Value:
        """Find or make what stands for a value: copied, constant, kept from a run, or computed again."""
        found = copied.get(value) or self._known.get(value)
        if found is not None:
            return found
        tensor = constant_tensor(value)
        arrays = None if tensor is not None else self._activations.get(value)
        if tensor is None and value.is_graph_input() and arrays is None:
            tensor = value.const_value
        if tensor is not None:
            made = ir.Value(name=self._name(), type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
            made.const_value = tensor
            self._weights.append(made)
        elif arrays is not None:
            made = self._feed(arrays)
        else:
            return self._compute(value, copied, depth)
        self._known[value] = made
        return made

    def _compute(self, value: ir.Value, copied: Values, depth: int) -> ir.Value:
        producer = value.producer()
        if producer is None or depth > _DEEPEST or not is_plain(producer):
            raise NotAtHandError
        inputs = [None if given is None else self._resolve(given, copied, depth + 1) for given in producer.inputs]
        return self._copy(producer, inputs, value, self._known)

    def _copy(self, node: ir.Node, inputs: list[ir.Value | None], wanted: ir.Value, into: Values) -> ir.Value:
        copy = copy_node(node, inputs)
        self.nodes.append(copy)
        for output, made in zip(node.outputs, copy.outputs, strict=True):
            made.name = "" if output.name == "" else self._name()
            made.type = None if output.dtype is None else ir.TensorType(output.dtype)
            # Sizes may not be what they were; operators for channels last are expanded by the number of axes.
            made.shape = None if output.shape is None else ir.Shape([None] * len(output.shape))
            into[output] = made
        return into[wanted]

    def _feed(self, arrays: Arrays) -> ir.Value:
        try:
            dtype = ir.DataType.from_numpy(arrays[0].dtype)
        except TypeError:
            raise NotAtHandError from None
        shapes = {array.shape for array in arrays}
        shape = ir.Shape(shapes.pop()) if len(shapes) == 1 else None
        made = ir.Value(name=self._name(), type=ir.TensorType(dtype), shape=shape)
        self._feeds[made] = arrays
        self.bytes += sum(np.asarray(array).nbytes for array in arrays)
        return made

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


def _chosen_by(value: ir.Value, at: Collection[str]) -> ir.Node | None:
    """Return the node that chooses the level from which a value is computed, with nothing else that varies."""
    node = value.producer()
    while node is not None and not decides(node):
        varying = [given for given in node.inputs if given is not None and given.producer() is not None]
        if len(varying) != 1 or varying[0].name not in at:
            return None
        node = varying[0].producer()
    return node


def _together(run: Sample, constants: Sample, bounds: Sample) -> Sample:
    return last_places(constants) | not_below_last_places(run, bounds)


def is_plain(node: ir.Node) -> bool:
    """Tell whether a node computes the same wherever and whenever it runs."""
    return not is_random(node) and not any(True for _ in nested_graphs(node))
