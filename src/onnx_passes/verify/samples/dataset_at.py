"""A dataset by where it lies: what goes to workers, who open it themselves and read only their part."""

from __future__ import annotations

import io
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.numpy_files import archive_numpy
from onnx_passes.verify.samples.reference import Source
from onnx_passes.verify.samples.sources import Opened, expand_sources
from onnx_passes.verify.samples.stamps import Stamp, is_remote, stamp_of
from onnx_passes.workers.store import Store


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
        return _opened(self)


@lru_cache(maxsize=1)
def _opened(at: DatasetAt) -> Dataset:
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
