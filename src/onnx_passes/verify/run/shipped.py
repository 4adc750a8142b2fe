"""Models on their way to workers: what ONNX Runtime takes, in a store, each weight once for all versions of a model."""

from __future__ import annotations

import mmap
import weakref
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.verify.run.boundary_types import Boundary
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor, Profile, must_be_apart
from onnx_passes.verify.run.pack import Packed
from onnx_passes.verify.run.resources import Resources
from onnx_passes.workers.store import Store

_Stored = tuple[str, str, tuple[int, ...]]
_KEPT = 4
"""Sessions that a worker keeps: those of the model now and of the original, and of the versions before."""


@dataclass(frozen=True)
class ShippedWeight:
    """A weight in a store."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Shipped:
    """A model in a store; small, whatever the model weighs."""

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
        return _ready(_ByKey(self))


class Shipping:
    """Puts versions of a model into a store; weights that are there already are not even looked at."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self.store = store
        self._executor = executor
        self._known: weakref.WeakKeyDictionary[Any, _Stored] = weakref.WeakKeyDictionary()

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
            stored = self._known[held] = file, array.dtype.str, array.shape
        return ShippedWeight(name, *stored)


class _ByKey:
    """A shipped model that is the same as another one if their results are."""

    def __init__(self, shipped: Shipped) -> None:
        self.shipped = shipped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByKey) and other.shipped.key == self.shipped.key

    def __hash__(self) -> int:
        return hash(self.shipped.key)


@lru_cache(maxsize=_KEPT)
def _ready(by_key: _ByKey) -> Executable:
    import onnxruntime

    shipped = by_key.shipped
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
