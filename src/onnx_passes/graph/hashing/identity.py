"""Distinguish large weights without reading them: by their location, size and samples of their bytes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.measure import count_bytes, count_elements
from onnx_passes.graph.external import MappedTensor, release
from onnx_passes.graph.hashing.content import Contents, digest, tensor_digest

if TYPE_CHECKING:
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_SMALL = 1 << 14
"""Up to this number of bytes, a digest is cheaper than samples."""
_SAMPLE = 128
"""Number of elements sampled at the start, in the middle and at the end of a tensor."""
_CHUNK = 1 << 20


class Identities(Contents):
    """Keys that are equal for equal tensors, like digests, but only among the keys of one object.

    The first of all tensors with equal element type, shape and samples is not read: these form its key. Any other is
    compared with it and, if it differs or the first is gone, digested.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[bytes, weakref.ref[ir.TensorProtocol]] = {}

    def tensor_key(self, tensor: ir.TensorProtocol) -> bytes:
        """Return the key of a new tensor."""
        taken = sample(tensor) if count_bytes(tensor) > _SMALL else b""
        if not taken:
            return tensor_digest(tensor)
        key = digest(int(tensor.dtype), tuple(tensor.shape.numpy()), taken)
        known = self._first.setdefault(key, weakref.ref(tensor))
        first = known()
        if first is tensor or (first is not None and is_same(first, tensor)):
            return key
        try:
            return tensor_digest(tensor)
        finally:
            release(tensor)


def sample(tensor: ir.TensorProtocol) -> bytes:
    """Return sampled elements of a tensor, independent of storage; empty for texts and for few narrow elements."""
    if tensor.dtype is ir.DataType.STRING:
        return b""
    size, bits = count_elements(tensor), tensor.dtype.bitwidth
    starts = (0, size // 2 & ~7, size - _SAMPLE & ~7) if size > 3 * _SAMPLE else (0,)
    if bits < 8 and len(starts) == 1:
        return b""
    if isinstance(tensor, MappedTensor):
        begin, length = tensor.offset or 0, min(size, _SAMPLE) * bits // 8
        return b"".join(tensor.file.read(begin + start * bits // 8, length) for start in starts)
    if bits < 8:
        packed = _packed(tensor)
        return b"".join(packed[start * bits // 8 : (start + _SAMPLE) * bits // 8] for start in starts)
    array = tensor.numpy()
    return b"".join(array.flat[start : start + _SAMPLE].tobytes() for start in starts)


def is_same(a: ir.TensorProtocol, b: ir.TensorProtocol) -> bool:
    """Return whether two tensors of one type and shape have the same location, or the same elements."""
    if isinstance(a, MappedTensor) and isinstance(b, MappedTensor) and a.place == b.place:
        return True
    left, right = _in_place(a), _in_place(b)
    if left is None or right is None:
        return tensor_digest(a) == tensor_digest(b)
    starts = range(0, left.size, _CHUNK)
    try:
        return left.ctypes.data == right.ctypes.data or all(
            np.array_equal(left[start : start + _CHUNK], right[start : start + _CHUNK]) for start in starts
        )
    finally:
        for tensor in (a, b):
            release(tensor)


def _in_place(tensor: ir.TensorProtocol) -> Bytes | None:
    """Return the bytes of a tensor in place; None unless they are equal if and only if the elements are."""
    if tensor.size * tensor.dtype.bitwidth % 8:
        # The padding of the last byte is arbitrary.
        return None
    if tensor.dtype.bitwidth < 8 or isinstance(tensor, MappedTensor):
        return np.frombuffer(_packed(tensor), np.uint8)
    array = tensor.numpy()
    return array.reshape(-1).view(np.uint8) if array.flags.c_contiguous and array.dtype.byteorder != ">" else None


def _packed(tensor: ir.TensorProtocol) -> memoryview:
    """Return the packed bytes of a tensor, without a copy if it is stored packed."""
    if isinstance(tensor, MappedTensor):
        return tensor.bytes
    if isinstance(tensor, ir.PackedTensor):
        return np.ascontiguousarray(cast("Any", tensor).raw).reshape(-1).view(np.uint8).data
    return memoryview(tensor.tobytes())
