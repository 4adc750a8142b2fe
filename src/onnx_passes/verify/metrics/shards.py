"""Metrics over a dataset that workers share: each takes shards, ranges of batches, and reads no more than these.

Models reach workers as ONNX Runtime takes them, in a store, with each weight once for all versions of a model.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import weakref
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.comparison.declarations import InterfaceHistory
from onnx_passes.verify.metrics.accumulators import Metric
from onnx_passes.verify.metrics.metrics import Metrics, States, measure, merged, run_now
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor, Profile, Sample, must_be_apart
from onnx_passes.verify.run.pack import Boundary, Packed
from onnx_passes.verify.run.resources import Resources
from onnx_passes.verify.samples.dataset import Batch, DatasetAt
from onnx_passes.verify.samples.numpy_files import archive_numpy, read_numpy
from onnx_passes.workers.cluster import Cluster
from onnx_passes.workers.completed import Lost, all_of
from onnx_passes.workers.origin import own_origin
from onnx_passes.workers.store import Store

_PER_WORKER, _FEWEST, _MOST = 8, 2, 512
"""Shards for each worker: with some more than one, few wait for the last; too many would keep the scheduler busy."""
_SESSIONS = 4
"""Sessions that a worker keeps: those of the model now and of the original, and of the versions before."""


@dataclass(frozen=True)
class ShippedWeight:
    """A weight in a store."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Shipped:
    """A model in a store; small, whatever the model weighs. Two are the same if their results are."""

    store: Store
    content: str
    weights: tuple[ShippedWeight, ...]
    boundary: Boundary
    is_apart: bool
    profile: Profile
    resources: Resources

    @property
    def key(self) -> tuple[object, ...]:
        """Return what decides about results."""
        return self.store, self.content, self.weights, repr(self.profile)

    def ready(self) -> Executable:
        """Make the model executable in this process, unless it is from before."""
        return _ready(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shipped) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Shipping:
    """Puts versions of a model into a store; weights that are there already are not even looked at."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self.store = store
        self._executor = executor
        self._known: weakref.WeakKeyDictionary[Any, ShippedWeight] = weakref.WeakKeyDictionary()

    def ship(self, model: ir.Model) -> Shipped:
        """Put a model into the store."""
        packed = self._executor.packed(model)
        weights = tuple(self._weight(name, held) for name, held in packed.handed.items())
        content = self.store.put(packed.content, ".onnx")
        executor = self._executor
        apart = must_be_apart(model)
        return Shipped(self.store, content, weights, packed.boundary, apart, executor.profile, executor.resources)

    def _weight(self, name: str, held: Any) -> ShippedWeight:
        stored = self._known.get(held)
        if stored is None:
            array: np.ndarray[Any, Any] = held.numpy()
            file = self.store.put(array.reshape(-1).view(np.uint8).data)
            stored = self._known[held] = ShippedWeight(name, file, array.dtype.str, array.shape)
        return replace(stored, name=name)


@lru_cache(maxsize=_SESSIONS)
def _ready(shipped: Shipped) -> Executable:
    import onnxruntime

    content = _found(shipped.store, shipped.content).read_bytes()
    handed = {
        weight.name: onnxruntime.OrtValue.ortvalue_from_numpy(_mapped(shipped.store, weight))
        for weight in shipped.weights
    }
    executor = Executor(shipped.profile, resources=shipped.resources)
    return executor.ready(Packed(content, handed, shipped.boundary), apart=shipped.is_apart)


def _mapped(store: Store, weight: ShippedWeight) -> np.ndarray[Any, Any]:
    """Map a weight into memory, which all workers of a machine share."""
    with _found(store, weight.file).open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return np.frombuffer(content, np.dtype(weight.dtype)).reshape(weight.shape)


def _found(store: Store, name: str) -> Path:
    path = store.path(name)
    if path is None:
        raise ExecutionError(
            "the worker does not find the model",
            where=store.location,
            hint="name a folder or URL for --store that this machine and all workers can access",
        )
    return path


@dataclass(frozen=True)
class ShardWork:
    """What a worker is told: small, whatever the model and the data weigh."""

    model: Shipped
    original: Shipped
    data: DatasetAt
    metrics: tuple[tuple[str, Metric], ...]
    interface: InterfaceHistory
    start: int
    stop: int


class Spread:
    """A dataset on which workers of a cluster measure versions of a model."""

    def __init__(
        self, cluster: Cluster, executor: Executor, original: ir.Model, data: DatasetAt, metrics: Metrics
    ) -> None:
        self._cluster = cluster
        self._shipping = Shipping(cluster.store, executor)
        self._original = self._shipping.ship(original)
        self._data = data
        self._metrics = tuple(metrics.items())

    def measure(self, model: ir.Model, interface: InterfaceHistory) -> States:
        """Measure on all batches; what comes out does not depend on who measured which of them."""
        shipped = self._shipping.ship(model)
        count = len(self._data.open())
        shards = max(1, min(count, shards_for(self._cluster.size)))
        ends = [count * number // shards for number in range(shards + 1)]
        parts = [
            ShardWork(shipped, self._original, self._data, self._metrics, interface, start, stop)
            for start, stop in pairwise(ends)
        ]
        return merged(states for _, states in all_of(self._cluster.workers, measure_shard, parts, _lost))


def shards_for(workers: int) -> int:
    """Return how many shards are made for so many workers."""
    return max(_FEWEST * workers, min(_PER_WORKER * workers, _MOST))


def measure_shard(work: ShardWork) -> States:
    """Measure on one shard."""
    originals = _Kept(work)
    ready = work.model.ready()
    is_original = not work.interface.changes and work.model.key == work.original.key
    run = originals.results if is_original else run_now(ready, work.interface)
    batches = work.data.open().batches(work.start, work.stop)
    metrics: Metrics = dict(work.metrics)
    states = measure(metrics, batches, run, originals, work.interface)
    originals.keep()
    return states


def _lost(work: ShardWork, lost: Lost) -> OnnxPassesError:
    return ExecutionError(f"batches {work.start} to {work.stop} of the dataset could not be measured: {lost}")


class _Kept:
    """Results of the original model on a shard, kept in the store from the first time on; if lost, computed again."""

    def __init__(self, work: ShardWork) -> None:
        self._work = work
        self._made: dict[int, Sample] = {}

    def results(self, number: int, batch: Batch) -> Sample:
        """Return the results for a batch, by its number."""
        if number not in self._known:
            self._known[number] = self._made[number] = batch.run(self._work.original.ready())
        return self._known[number]

    @cached_property
    def _known(self) -> dict[int, Sample]:
        path = self._work.original.store.path(self._name)
        if path is None:
            return {}
        known: dict[int, Sample] = {}
        arrays = read_numpy(path)
        assert isinstance(arrays, dict)
        for key, array in arrays.items():
            number, _, name = key.partition("/")
            known.setdefault(int(number), {})[name] = array
        return known

    def keep(self) -> None:
        """Keep what was computed, where numpy knows its types."""
        arrays = {f"{number}/{name}": array for number, found in self._made.items() for name, array in found.items()}
        if not arrays or any(array.dtype.kind not in "biuf" for array in arrays.values()):
            return
        content = io.BytesIO()
        archive_numpy(content, arrays)
        self._work.original.store.write(self._name, content.getbuffer())

    @property
    def _name(self) -> str:
        work = self._work
        what = repr((work.original.key, own_origin().versions, work.data, work.start, work.stop))
        return f"original-{hashlib.blake2b(what.encode(), digest_size=16).hexdigest()}.npz"
