"""Metrics over a dataset that workers share: each takes shards, ranges of batches, and reads no more than these."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.comparison.declarations import InterfaceHistory
from onnx_passes.verify.metrics.accumulators import Metric
from onnx_passes.verify.metrics.metrics import Metrics, States, measure, merged, run_now
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.run.shipped import Shipped, Shipping
from onnx_passes.verify.samples.dataset import Batch, DatasetAt
from onnx_passes.verify.samples.numpy_files import archive_numpy, read_numpy
from onnx_passes.workers.cluster import Cluster
from onnx_passes.workers.completed import Lost, all_of
from onnx_passes.workers.origin import own_origin

_PER_WORKER, _FEWEST, _MOST = 8, 2, 512
"""Shards for each worker: with some more than one, few wait for the last; too many would keep the scheduler busy."""


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
