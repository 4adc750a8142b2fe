"""Sessions of ONNX Runtime, here or in another process: their weights, and the memory that they will take."""

from __future__ import annotations

import math
import os
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.measure import count_bytes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.external import MappedTensor, file_of, require_unchanged
from onnx_passes.verify.run import server
from onnx_passes.verify.run.child import Child
from onnx_passes.verify.run.resources import Resources, ended_after, memory_limited, other_threads
from onnx_passes.verify.run.server import Recipe, described

Shape = Sequence[int | str | None] | None


class InProcess:
    """A session of ONNX Runtime in this process."""

    def __init__(self, session: Callable[[], Any], resources: Resources) -> None:
        import onnxruntime

        self._session = session()
        self._options = cast("Any", onnxruntime).RunOptions
        self.resources = resources

    @cached_property
    def outputs(self) -> list[tuple[str, str, Shape]]:
        """Name, type and shape of every output."""
        return described(self._session)

    def run(self, names: Sequence[str], feeds: dict[str, Any]) -> list[Any]:
        """Compute outputs by name."""
        options = self._options()
        with memory_limited(self.resources.memory), ended_after(self.resources.seconds, options):
            return self._session.run(names, feeds, options)


class InChild:
    """A session of ONNX Runtime in a process of its own: a copy of this one, or one that shares nothing with it.

    Beside other threads it is no copy, nor if it is ``large``: then it is there only while it runs. ``places`` returns
    where it finds its weights, ``spent`` the bytes of the limit that are used up already.
    """

    def __init__(
        self,
        recipe: Recipe,
        resources: Resources,
        places: Callable[[], Mapping[str, Place]] | None = None,
        *,
        large: bool = False,
        spent: Callable[[], int] = int,
    ) -> None:
        def left() -> Resources:
            memory = resources.memory - spent()
            if memory <= 0:
                raise MemoryError
            return replace(resources, memory=memory)

        # What does not fit is not even put into files.
        left()
        is_copy = not large and not other_threads()
        start = None
        if not is_copy and places is not None and recipe.is_plain and server.has_server():
            start = partial(server.start, recipe, places())
        self.resources = resources
        self._child = Child(recipe.prepare, resources, left=left, start=start, brief=large)
        self.run = self._child.run
        self.outputs = cast("list[tuple[str, str, Shape]]", self._child.known)


_UNKNOWN = 8
"""What a dynamic dimension counts."""
_TEXT = 64
"""Bytes that a text counts."""
_SHORT = frozenset((ir.DataType.FLOAT16, ir.DataType.BFLOAT16))
"""What is computed in float32, and held in both; of weights, one at a time."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of weights and of all results together; a result of unknown shape counts as much as the largest input."""

    weights: int
    results: int
    is_known: bool

    @property
    def bytes(self) -> int:
        """Return all of it."""
        return self.weights + self.results


def footprint(model: ir.Model, weights: int) -> Footprint:
    """Estimate what a run takes beside weights of so many bytes: more than is alive at once."""
    inputs = [_nbytes(value) for value in model.graph.inputs if not value.is_initializer()]
    results = [_nbytes(value) for node in all_nodes(model.graph) for value in node.outputs if value.name]
    largest = max(filter(None, inputs), default=0)
    total = sum(largest if size is None else size for size in (*inputs, *results))
    short = (value.const_value for value in model.graph.initializers.values() if value.dtype in _SHORT)
    widened = 2 * max((count_bytes(tensor) for tensor in short if tensor is not None), default=0)
    return Footprint(weights, total + widened, None not in results)


def _nbytes(value: ir.Value) -> int | None:
    if value.shape is None or value.dtype in (None, ir.DataType.UNDEFINED):
        return None
    sizes = [size if isinstance(size, int) else _UNKNOWN for size in value.shape]
    if value.dtype is ir.DataType.STRING:
        return _TEXT * math.prod(sizes)
    bits = value.dtype.bitwidth * (3 if value.dtype in _SHORT else 1)
    return -(-math.prod(sizes) * bits // 8)


_HANDED_OVER = 1024
"""Weights of more bytes than this reach ONNX Runtime as they lie in memory."""


@dataclass(frozen=True)
class Place:
    """Where the data of an array lie: in an open file, which ``holder`` keeps open, from a byte on."""

    holder: object
    descriptor: int
    offset: int
    dtype: str
    shape: tuple[int, ...]


def checksum(tensor: ir.TensorProtocol | None) -> int:
    """Return a checksum of the elements of a weight in memory; 0 for what is mapped from a file, and for text."""
    if tensor is None or isinstance(tensor, MappedTensor) or tensor.dtype is ir.DataType.STRING:
        return 0
    return zlib.crc32(np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data)


class Weights:
    """Weights, each once for all versions of a model."""

    def __init__(self) -> None:
        self._handed: weakref.WeakKeyDictionary[ir.TensorProtocol, Any] = weakref.WeakKeyDictionary()
        self._places: weakref.WeakKeyDictionary[ir.TensorProtocol, Place] = weakref.WeakKeyDictionary()

    def handed(self, tensor: ir.TensorProtocol) -> Any:
        """Wrap a weight for ONNX Runtime where it lies; None if it has to be a part of the model."""
        import onnxruntime

        if tensor.nbytes <= _HANDED_OVER or not _is_known(tensor.dtype):
            return None
        held = self._handed.get(tensor)
        require_unchanged(tensor)
        if held is None:
            array = _array(tensor)
            if not array.flags.c_contiguous or array.dtype.byteorder == ">":
                return None
            held = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, tensor.dtype.value)
            self._handed[tensor] = held
        return held

    def place(self, tensor: ir.TensorProtocol) -> Place:
        """Return where another process finds a weight that is handed over; one that is in no file is copied to one."""
        place = self._places.get(tensor)
        if place is None:
            array, file = _array(tensor), file_of(tensor)
            if file is None:
                place = _copied(array)
            else:
                place = Place(file, file.descriptor, file.offset_of(array), array.dtype.str, array.shape)
            self._places[tensor] = place
        return place


def _is_known(dtype: ir.DataType) -> bool:
    return dtype is ir.DataType.BFLOAT16 or (dtype.numpy().kind in "fiub" and dtype.bitwidth >= 8)


def _array(tensor: ir.TensorProtocol) -> np.ndarray[Any, Any]:
    array = tensor.numpy()
    # Numpy knows no bfloat16 by itself.
    return array.view(np.uint16) if tensor.dtype is ir.DataType.BFLOAT16 else array


def _copied(array: np.ndarray[Any, Any]) -> Place:
    """Copy an array to a file in memory, which is there as long as the place."""
    file = os.fdopen(os.memfd_create("onnx-passes-weight"), "wb", buffering=0)
    content = array.reshape(-1).view(np.uint8).data
    while content:
        content = content[file.write(content) :]
    return Place(file, file.fileno(), 0, array.dtype.str, array.shape)
