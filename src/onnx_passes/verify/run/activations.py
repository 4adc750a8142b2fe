"""Values inside a model as it ran on samples: kept as far as memory allows, the rest is computed again when needed."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import is_constant
from onnx_passes.verify.run.execute import Executable, Executor, Sample

LIMIT = 256 * 2**20
_SMALL = 8 * 2**20
"""With no more bytes than this in the first sample, all samples are kept; with twice as many two, else that one."""
_EDGES = 2
"""The sample with edge values, which is kept beside the first."""
_MOST = 4000
"""So many values are kept at most: the time ONNX Runtime takes for a session grows with the square of its outputs."""
_GUESS = 2**16
"""Elements of a value whose size nobody knows before it is computed."""

Arrays = tuple[np.ndarray, ...]


class Activations:
    """Arrays by value, one for each sample; values that leave the model are forgotten."""

    def __init__(self, executor: Executor, limit: int = LIMIT) -> None:
        self.executor = executor
        self.limit = limit
        self.samples: Sequence[Sample] = ()
        self.bytes = 0
        self._arrays: dict[weakref.ref[ir.Value], Arrays] = {}

    def __contains__(self, value: ir.Value) -> bool:
        return weakref.ref(value) in self._arrays

    def get(self, value: ir.Value) -> Arrays | None:
        """Return the arrays of a value, None if unknown; inputs of the model come from the samples."""
        if value.is_graph_input() and value.name is not None and all(value.name in sample for sample in self.samples):
            return tuple(sample[value.name] for sample in self.samples)
        return self._arrays.get(weakref.ref(value))

    def put(self, value: ir.Value, arrays: Arrays) -> None:
        """Keep computed arrays, unless the limit of memory is reached."""
        self._forget(weakref.ref(value))
        size = _nbytes(arrays)
        if self.bytes + size <= self.limit:
            self.bytes += size
            self._arrays[weakref.ref(value, self._forget)] = arrays

    def follow(self, replaced: Iterable[tuple[ir.Value, ir.Value]]) -> None:
        """Reuse the arrays of old values for the new values that replace them."""
        for old, new in replaced:
            if (arrays := self.get(old)) is not None and self.get(new) is None:
                self.put(new, arrays)

    def _forget(self, value: weakref.ref[ir.Value]) -> None:
        self.bytes -= _nbytes(self._arrays.pop(value, ()))

    def fill(
        self, model: ir.Model, samples: Sequence[Sample], *, kept_for: Mapping[str, ir.Value] | None = None
    ) -> None:
        """Run a model and keep the values in its graph, the smallest first if not all find room.

        With ``kept_for`` they are kept for values of another model, by name. Raises ExecutionError if that is
        impossible.
        """
        self._arrays.clear()
        self.bytes, self.samples = 0, _two(samples)
        values = {str(value.name): value for node in model.graph for value in node.outputs if _is_wanted(value)}
        if len(values) > _MOST:
            # Spread over the whole graph, so that what lies between is near to something that is kept.
            every = -(-len(values) // _MOST)
            values = dict(islice(values.items(), 0, None, every))
        ready = self._prepare(model, values.values(), samples)
        sizes = _sizes(ready, set(values), samples[0])
        chosen = _fitting(sizes, self.limit // len(self.samples))
        if len(chosen) < len(sizes):
            # ONNX Runtime keeps all outputs that a session has, whether or not they are asked for.
            ready = self._prepare(model, [values[name] for name in chosen], samples)
        runs = [ready.run(samples[0], only=chosen)]
        size = _nbytes(runs[0].values())
        self.samples = samples if size <= _SMALL else self.samples if size <= 2 * _SMALL else samples[:1]
        runs += [ready.run(sample, only=chosen) for sample in self.samples[1:]]
        for name in chosen:
            if (value := (kept_for or values).get(name)) is not None:
                self.put(value, tuple(run[name] for run in runs))

    def _prepare(self, model: ir.Model, values: Iterable[ir.Value], samples: Sequence[Sample]) -> Executable:
        return self.executor.prepare(model, also=list(values), engine="onnxruntime", feeds=set(samples[0]))


def _two(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Choose an ordinary sample and one with edge values."""
    return [*samples[:1], *(samples[_EDGES:][:1] or samples[1:2])]


def _nbytes(arrays: Iterable[np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays)


def _is_wanted(value: ir.Value) -> bool:
    is_read = bool(value.uses()) or value.is_graph_output()
    return bool(value.name) and is_read and not is_constant(value)


def _sizes(ready: Executable, names: set[str | None], sample: Sample) -> dict[str, int]:
    """Estimate the bytes of the values that can be had as arrays."""
    dimension = max((size for array in sample.values() for size in array.shape), default=1)
    sizes: dict[str, int] = {}
    for name, shape in ready.shapes().items():
        if name in names:
            known = None if shape is None else [size if isinstance(size, int) else dimension for size in shape]
            sizes[name] = 4 * (_GUESS if known is None else math.prod(known))
    return sizes


def _fitting(sizes: dict[str, int], limit: int) -> list[str]:
    chosen: list[str] = []
    room = limit
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if room < 0:
            break
        chosen.append(name)
    return chosen
