"""Tell big weights apart without reading them: by where they lie, their size and samples of their bytes."""

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
"""A digest of no more bytes than this costs less than care."""
_SAMPLE = 128
"""Elements at the start, in the middle and at the end of a tensor."""
_CHUNK = 1 << 20


class Identities(Contents):
    """Keys that are the same for the same tensors, as digests are, but only among those that one object gives.

    The first of the tensors that have element type, shape and samples in common is not read: those alone are its key.
    Any other is compared with it and, where it differs or the first is gone, digested.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[bytes, weakref.ref[ir.TensorProtocol]] = {}

    def tensor_key(self, tensor: ir.TensorProtocol) -> bytes:
        """Return the key of a tensor that was not met before."""
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
    """Return some elements of a tensor, the same however it is held; none of texts and of few narrow elements."""
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
    """Tell whether two tensors of one type and shape lie in the same place, or hold the same elements."""
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
    """Return the bytes of a tensor where they lie, if elements are the same exactly if these are."""
    if tensor.size * tensor.dtype.bitwidth % 8:
        # What pads the last byte does not count.
        return None
    if tensor.dtype.bitwidth < 8 or isinstance(tensor, MappedTensor):
        return np.frombuffer(_packed(tensor), np.uint8)
    array = tensor.numpy()
    return array.reshape(-1).view(np.uint8) if array.flags.c_contiguous and array.dtype.byteorder != ">" else None


def _packed(tensor: ir.TensorProtocol) -> memoryview:
    """Return the bytes of a tensor as they are in a file, without a copy where it is held so."""
    if isinstance(tensor, MappedTensor):
        return tensor.bytes
    if isinstance(tensor, ir.PackedTensor):
        return np.ascontiguousarray(cast("Any", tensor).raw).reshape(-1).view(np.uint8).data
    return memoryview(tensor.tobytes())
