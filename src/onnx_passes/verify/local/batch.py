"""Fragments of a model put together, to run them all at once on values that are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.core.records import Application
from onnx_passes.fragment.assembly import Assembly
from onnx_passes.fragment.fragment import Fragment, is_plain, shared_inputs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.verify.comparison.noise import rounding_bounds
from onnx_passes.verify.run.activations import Activations, Arrays
from onnx_passes.verify.run.execute import Sample
from onnx_passes.verify.ties.decisions import decides
from onnx_passes.verify.ties.exact import computed_values

_DEEPEST = 50
"""So many nodes in a row are computed again where a value was not kept."""


Values = dict[ir.Value, ir.Value]


@dataclass(frozen=True, eq=False)
class Window:
    """One application, and its old and new values in the model that runs all windows.

    ``own`` names all that is computed there on the way to either.
    """

    application: Application
    expected: tuple[ir.Value, ...]
    found: tuple[ir.Value, ...]
    own: frozenset[str]


class NotAtHandError(Exception):
    """A value that is needed is neither known nor quickly computed."""


class FragmentBatch:
    """The old and the new fragments of applications, copied into one model; what is known is fed, not computed."""

    def __init__(self, model: ir.Model, activations: Activations) -> None:
        self.bytes = 0
        self._model, self._functions = model, model.functions
        self.activations, self.executor = activations, activations.executor
        self._copies = Assembly()
        self._feeds: dict[ir.Value, Arrays] = {}
        self._whole: ir.Model | None = None

    @property
    def nodes(self) -> Sequence[ir.Node]:
        """Return the nodes that run."""
        return self._copies.nodes

    def add(self, application: Application) -> Window:
        """Copy what an application takes out and what it puts in. Raises NotAtHandError."""
        matched, copied = frozenset(application.matched), Values()
        expected = tuple(self._old(old, matched, copied) for old, _ in application.replaced)
        inside = [value for node in matched for value in node.outputs]
        own = [str(here.name) for value in inside if (here := copied.get(value) or self._copies.values.get(value))]
        so_far = len(self.nodes)
        found = tuple(self._new(new, copied) for _, new in application.replaced)
        # From now on the old value means the new one.
        self._copies.values.update((old, new) for (old, _), new in zip(application.replaced, found, strict=True))
        own += [str(value.name) for node in self.nodes[so_far:] for value in node.outputs]
        return Window(application, expected, found, frozenset(own))

    def follow(self, replaced: Iterable[tuple[ir.Value, ir.Value]]) -> None:
        """Map new values to the copies of the old ones."""
        self._copies.values.update(
            (new, self._copies.values[old]) for old, new in replaced if old in self._copies.values
        )

    def run(self, wanted: Collection[ir.Value]) -> dict[ir.Value, Arrays]:
        """Run everything on all samples; returns the arrays of the wanted values. Raises ExecutionError."""
        computed = [value for value in wanted if value.producer() is not None]
        arrays = {value: self._at_hand(value) for value in wanted if value.producer() is None}
        if computed:
            self._whole = self._copies.model(self._model, computed, name="windows")
            ready = self.executor.prepare(self._whole, engine="onnxruntime")
            runs = [ready.run(sample) for sample in self._samples()]
            arrays.update((value, tuple(run[str(value.name)] for run in runs)) for value in computed)
        return arrays

    def decides(self, own: Collection[str]) -> bool:
        """Return whether a node that computes one of the values ``own`` rounds to quantization levels."""
        return any(decides(node) for node in self.nodes if any(value.name in own for value in node.outputs))

    def rounding(
        self,
        wanted: Sequence[ir.Value],
        at: Collection[str],
        numbers: Sequence[int],
        enough: Callable[[int, Sample], bool],
    ) -> dict[int, Sample] | None:
        """Return how far rounding in the nodes that compute values ``at`` may move wanted ones, in some samples.

        ``enough(number, bound)`` ends the runs of a sample as soon as its bound is large enough.
        """
        if self._whole is None:
            return None
        copied = Fragment.between((), wanted).model(self._whole)
        values = computed_values(copied)
        nodes = {node for name in at if name in values and (node := values[name].producer()) is not None}
        if any(map(decides, nodes)):
            # A level that flips is no matter of rounding alone.
            return None
        samples = [_inputs_of(copied, sample) for number, sample in enumerate(self._samples()) if number in numbers]
        found = list(copied.graph.outputs)
        bounds = rounding_bounds(
            copied,
            found,
            samples,
            self.executor,
            at=nodes,
            enough=lambda place, bound: enough(numbers[place], bound),
        )
        return None if bounds is None else dict(zip(numbers, bounds, strict=True))

    def fragments(
        self, expected: Sequence[ir.Value], found: Sequence[ir.Value], own: Collection[str]
    ) -> tuple[ir.Model, ir.Model, list[Sample]] | None:
        """Cut out what computes expected and found values in nodes whose results are ``own``, as two models.

        Returns as well the samples of what both read; nothing if the values are not computed here.
        """
        if self._whole is None or any(value.producer() is None for value in (*expected, *found)):
            return None
        inner = [node for node in self._whole.graph if any(value.name in own for value in node.outputs)]
        computed = {value for node in inner for value in node.outputs}.union(expected, found)
        read = dict.fromkeys(value for node in inner for value in node.inputs if value is not None)
        border = [value for value in read if value.producer() is not None and value not in computed]
        ready = self.executor.prepare(self._whole, also=border, engine="onnxruntime")
        names = [str(value.name) for value in border]
        runs = [ready.run(sample, only=names) for sample in self._samples()]
        # Arrays of a run may be of wider types than the values are declared to have.
        types = {v: ir.TensorType(ir.DataType.from_numpy(runs[0][str(v.name)].dtype)) for v in border}
        declared = {value: ir.Value(type=type_, shape=value.shape) for value, type_ in types.items()}
        cuts = [Fragment.between(border, dict.fromkeys(wanted)) for wanted in (expected, found)]
        inputs = shared_inputs(cuts)
        old, new = (replace(cut, inputs=inputs).model(self._whole, declared=declared) for cut in cuts)
        return old, new, [_inputs_of(old, fed | run) for fed, run in zip(self._samples(), runs, strict=True)]

    def _samples(self) -> list[Sample]:
        return [
            {str(value.name): fed[number] for value, fed in self._feeds.items()}
            for number in range(len(self.activations.samples))
        ]

    def _at_hand(self, value: ir.Value) -> Arrays:
        if value in self._feeds:
            return self._feeds[value]
        assert value.const_value is not None
        return (value.const_value.numpy(),) * len(self.activations.samples)

    def _old(self, value: ir.Value, matched: frozenset[ir.Node], copied: Values) -> ir.Value:
        """Copy the matched nodes, unless an earlier application put them in: then they are here already."""
        if value in copied:
            return copied[value]
        producer, known = value.producer(), self._copies.values.get(value)
        if producer not in matched or (known is not None and known not in self._feeds):
            return self._resolve(value, copied, 0)
        inputs = [None if given is None else self._old(given, matched, copied) for given in producer.inputs]
        self._copies.copy(producer, inputs, copied)
        return copied[value]

    def _new(self, value: ir.Value, copied: Values) -> ir.Value:
        """Compute what takes the place of a value: what was kept of one that was there before may be out of date."""
        if value not in copied and value not in self._copies.values and value.producer() is not None:
            try:
                return self._compute(value, copied, 0)
            except NotAtHandError:
                pass
        return self._resolve(value, copied, 0)

    def _resolve(self, value: ir.Value, copied: Values, depth: int) -> ir.Value:
        """Find or make what stands for a value: copied, constant, kept from a run, or computed again."""
        found = copied.get(value) or self._copies.values.get(value)
        if found is not None:
            return found
        tensor = constant_tensor(value)
        arrays = None if tensor is not None else self.activations.get(value)
        if tensor is None and value.is_graph_input() and arrays is None:
            tensor = value.const_value
        if tensor is not None:
            return self._copies.weight(tensor, value)
        return self._compute(value, copied, depth) if arrays is None else self._feed(value, arrays)

    def _compute(self, value: ir.Value, copied: Values, depth: int) -> ir.Value:
        producer = value.producer()
        if producer is None or depth > _DEEPEST or not is_plain(producer, self._functions):
            raise NotAtHandError
        inputs = [None if given is None else self._resolve(given, copied, depth + 1) for given in producer.inputs]
        self._copies.copy(producer, inputs)
        return self._copies.values[value]

    def _feed(self, value: ir.Value, arrays: Arrays) -> ir.Value:
        try:
            dtype = ir.DataType.from_numpy(arrays[0].dtype)
        except TypeError:
            raise NotAtHandError from None
        shapes = {array.shape for array in arrays}
        shape = ir.Shape(shapes.pop()) if len(shapes) == 1 else None
        made = self._copies.feed(value, ir.Value(type=ir.TensorType(dtype), shape=shape))
        self._feeds[made] = arrays
        self.bytes += sum(np.asarray(array).nbytes for array in arrays)
        return made


def _inputs_of(model: ir.Model, sample: Sample) -> Sample:
    return {str(value.name): sample[str(value.name)] for value in model.graph.inputs}
