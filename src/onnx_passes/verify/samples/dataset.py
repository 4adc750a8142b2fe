"""A dataset for a model, in batches that the model accepts, with expected outputs; workers reopen it by its path."""

from __future__ import annotations

import io
import socket
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from os import PathLike, fspath
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.run.execute import Executable, Sample
from onnx_passes.verify.samples.numpy_files import LazyArray, archive_numpy
from onnx_passes.verify.samples.reference import Array, Source, read_inputs, read_outputs
from onnx_passes.verify.samples.sources import Opened, expand_sources, open_rows
from onnx_passes.verify.samples.tables import Stamp, is_remote, stamp_of
from onnx_passes.workers.store import Store

BATCH = 64
"""Rows that are run at a time where a model leaves their number open."""


@dataclass(frozen=True)
class Batch:
    """Inputs for one run, what is expected of it, and how many rows count where the rest only fills up."""

    inputs: Sample
    expected: Sample | None = None
    rows: int | None = None

    def run(self, ready: Executable) -> Sample:
        """Run a model on the batch and cut off what only filled it up."""
        found = ready.run(self.inputs)
        if self.rows is None:
            return found
        for name, array in found.items():
            if array.ndim == 0 or len(array) < self.rows:
                raise UsageError(
                    f"the output '{name}' has not one row for each of the {self.rows} rows that fill up a batch",
                    hint="give a multiple of the rows that the model takes at a time",
                )
        return {name: array[: self.rows] for name, array in found.items()}


class Dataset:
    """Samples that are read and cut only when their turn comes; ``.npy`` files stay on the disk until then.

    The first axis is that of the batch. Where the model leaves its size open, ``batch`` rows are run at a time;
    where it is fixed, as many as the model says, and the last batch is filled up by its last row. Inputs that have no
    such axis in common are run as they are.
    """

    def __init__(self, samples: Sequence[Sample], axis: _BatchAxis, expected: Sequence[Sample] | None = None) -> None:
        self._samples = samples
        self._axis = axis
        self._expected = expected
        self.count = sum(axis.rows(sample) or 1 for sample in samples)

    @classmethod
    def read(
        cls, model: ir.Model, inputs: Sequence[Source], expect: Sequence[Source] = (), *, batch: int | None = None
    ) -> Dataset:
        """Read samples of inputs, and with them expected outputs or labels: of the first output, if not named."""
        axis = _BatchAxis(model, batch or BATCH)
        samples = read_inputs(axis.opened, _opened(inputs))
        dataset = cls(samples, axis)
        if expect:
            groups = _read_expected(model, _opened(expect))
            dataset._expected = dataset._distribute(groups)
        return dataset

    @classmethod
    def of(cls, model: ir.Model, samples: Sequence[Sample]) -> Dataset:
        """Take samples as they are."""
        return cls(samples, _BatchAxis(model, None))

    @property
    def has_expected(self) -> bool:
        """Return whether it is known what is expected."""
        return self._expected is not None

    @cached_property
    def _ends(self) -> list[int]:
        """Count the batches up to the end of each sample."""
        return list(accumulate(self._axis.batches(sample) for sample in self._samples))

    def __iter__(self) -> Iterator[Batch]:
        return (batch for _, batch in self.batches())

    def __len__(self) -> int:
        """Count the batches."""
        return self._ends[-1] if self._ends else 0

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Yield batches with their numbers; those before and after are not read."""
        stop = len(self) if stop is None else min(stop, len(self))
        for number in range(bisect_right(self._ends, start), len(self._samples)):
            first = self._ends[number - 1] if number else 0
            if first >= stop:
                return
            expected = self._expected[number] if self._expected is not None else None
            wanted = range(max(start - first, 0), min(stop, self._ends[number]) - first)
            yield from ((first + place, self._axis.cut(self._samples[number], expected, place)) for place in wanted)

    def _distribute(self, groups: list[Sample]) -> list[Sample]:
        """Give each sample what is expected of it: by the file, or by the rows of one file for all."""
        rows = [self._axis.rows(sample) or 1 for sample in self._samples]
        if len(groups) == len(rows):
            return groups
        if len(groups) == 1:
            (group,) = groups
            sizes = {len(array) if array.ndim else 0 for array in group.values()}
            if sizes == {len(rows)}:
                return [{name: array[number] for name, array in group.items()} for number in range(len(rows))]
            if sizes == {sum(rows)}:
                ends = np.cumsum(rows)
                return [
                    {name: _part(array, end - size, end) for name, array in group.items()}
                    for end, size in zip(ends, rows, strict=True)
                ]
        found = ", ".join(str(next(iter(group.values())).shape) for group in groups[:3])
        raise UsageError(
            f"expected outputs of shape {found} cannot be told apart for {len(rows)} samples of inputs",
            hint="give as many of one as of the other",
        )


class _BatchAxis:
    """The inputs of a model that share a first axis, and how many rows of it are run at a time."""

    def __init__(self, model: ir.Model, batch: int | None) -> None:
        first = {str(v.name): v.shape[0] for v in model.graph.inputs if v.shape is not None and len(v.shape)}
        named = [name for name, size in first.items() if not isinstance(size, int)]
        self.size = batch
        self.names = named
        self.is_fixed = False
        if not named and first and batch is not None:
            self.size = cast(int, next(iter(first.values())))
            self.names = [name for name, size in first.items() if size == self.size]
            self.is_fixed = True
        self.opened = self._open(model) if self.is_fixed else model

    def _open(self, model: ir.Model) -> ir.Model:
        """Return the inputs of the model, with any number of rows."""
        inputs: list[ir.Value] = []
        for value in model.graph.inputs:
            dims = list(value.shape) if value.shape is not None else None
            if dims and value.name in self.names:
                dims[0] = ir.SymbolicDim(None)
            shape = None if dims is None else ir.Shape(dims)
            inputs.append(ir.Value(name=value.name, type=value.type, shape=shape, const_value=value.const_value))
        defaults = [value for value in inputs if value.name in model.graph.initializers]
        return ir.Model(ir.Graph(inputs, [], nodes=[], initializers=defaults), ir_version=model.ir_version)

    def rows(self, sample: Sample) -> int | None:
        """Count the rows of a sample, if all inputs with a first axis in common agree."""
        counts = {len(array) for name, array in sample.items() if name in self.names and array.ndim}
        return counts.pop() if len(counts) == 1 and self.size else None

    def batches(self, sample: Sample) -> int:
        """Count the batches that a sample is cut into."""
        rows = self.rows(sample)
        return 1 if rows is None or self.size is None else -(-rows // self.size)

    def cut(self, sample: Sample, expected: Sample | None, place: int) -> Batch:
        """Cut one batch out of a sample."""
        rows = self.rows(sample)
        if rows is None or self.size is None or rows == self.size:
            return Batch({name: np.asarray(array) for name, array in sample.items()}, expected)
        for name, array in (expected or {}).items():
            if array.ndim == 0 or len(array) != rows:
                raise UsageError(
                    f"{rows} samples of inputs, but expected outputs of shape {list(array.shape)} for '{name}'",
                    hint="give as many of one as of the other",
                )
        start = place * self.size
        part = slice(start, min(start + self.size, rows))
        filled = self.size if self.is_fixed else part.stop - start
        inputs = {
            name: _filled(array[part], filled) if name in self.names else np.asarray(array)
            for name, array in sample.items()
        }
        wanted = {name: array[part] for name, array in expected.items()} if expected is not None else None
        return Batch(inputs, wanted, part.stop - start if filled > part.stop - start else None)


def _filled(rows: Array, size: int) -> Array:
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else np.array(rows)


def _read_expected(model: ir.Model, sources: Sequence[Source]) -> list[Sample]:
    """Read arrays of any shape and type for all outputs, or for the first one."""
    names = [str(value.name) for value in model.graph.outputs]
    try:
        return read_outputs(_untyped(names), sources)
    except UsageError:
        if len(names) < 2:
            raise
    return read_outputs(_untyped(names[:1]), sources)


def _untyped(names: Sequence[str]) -> ir.Model:
    return ir.Model(ir.Graph([], [ir.Value(name=name) for name in names], nodes=[]), ir_version=10)


def _opened(sources: Sequence[Source]) -> list[Source]:
    return [open_rows(source) for source in expand_sources(sources)]


def _part(array: Array, start: int, stop: int) -> Array:
    unread = cast("Array | LazyArray", array)
    return cast("Array", unread.part(start, stop)) if isinstance(unread, LazyArray) else array[start:stop]


@dataclass(frozen=True)
class DatasetAt:
    """Files of a dataset, how many rows of them are run at a time, and the inputs and outputs that they are for.

    ``stamps`` tell files from others that took their names since: what was kept of those is of no use.
    """

    interface: bytes
    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    batch: int | None
    stamps: tuple[Stamp, ...] = ()

    @classmethod
    def of(
        cls, model: ir.Model, inputs: Sequence[Source], expect: Sequence[Source], batch: int | None, store: Store
    ) -> DatasetAt:
        """Say where a dataset lies; arrays that are in memory go to a store."""
        files, labels = _files(inputs, store), _files(expect, store)
        return cls(_interface(model), files, labels, batch, tuple(map(stamp_of, (*files, *labels))))

    def open(self) -> Dataset:
        """Open the dataset; a worker does that once, and refuses data that are others than those that are meant."""
        return _opened_at(self)


@lru_cache(maxsize=1)
def _opened_at(at: DatasetAt) -> Dataset:
    for source, stamp in zip((*at.inputs, *at.expect), at.stamps, strict=False):
        if not stamp.is_of(stamp_of(source)):
            raise UsageError(
                f"the data that {socket.gethostname()} finds here are not those that the run began with",
                where=source,
                hint="let all machines see the same files, and leave them as they are until the run ends",
            )
    graph = onnx.GraphProto.FromString(at.interface)
    inputs, outputs = ([_value(proto) for proto in protos] for protos in (graph.input, graph.output))
    defaults = {proto.name for proto in graph.initializer}
    for value in inputs:
        if value.name in defaults:
            value.const_value = ir.tensor([], dtype=value.dtype, name=value.name)
    model = ir.Model(
        ir.Graph(inputs, outputs, nodes=[], initializers=[value for value in inputs if value.name in defaults]),
        ir_version=10,
    )
    return Dataset.read(model, at.inputs, at.expect, batch=at.batch)


def _value(proto: onnx.ValueInfoProto) -> ir.Value:
    return ir.serde.deserialize_value_info_proto(proto, None)


def _interface(model: ir.Model) -> bytes:
    """Return the inputs and outputs of a model; of defaults only the names matter."""
    graph = onnx.GraphProto(name="interface")
    graph.input.extend(ir.serde.serialize_value(value) for value in model.graph.inputs)
    graph.output.extend(ir.serde.serialize_value(value) for value in model.graph.outputs)
    for value in model.graph.inputs:
        if value.name in model.graph.initializers:
            graph.initializer.add(name=value.name or "")
    return graph.SerializeToString()


def _files(sources: Sequence[Source], store: Store) -> tuple[str, ...]:
    return tuple(_file(source, store) for source in expand_sources(sources))


def _file(source: Source, store: Store) -> str:
    if isinstance(source, str | PathLike):
        text = fspath(source)
        return text if is_remote(text) else str(Path(text).absolute())
    if isinstance(source, Opened):
        return source.where
    content = io.BytesIO()
    if isinstance(source, np.ndarray):
        np.save(content, source, allow_pickle=False)
        return store.place(store.put(content.getbuffer(), ".npy"))
    archive_numpy(content, source)
    return store.place(store.put(content.getbuffer(), ".npz"))
