"""Weights as engines read them: where they lie in memory or, from another process, in a file."""

from __future__ import annotations

import os
import weakref
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.external import MappedTensor, file_of, require_unchanged

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
