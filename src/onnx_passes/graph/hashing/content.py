"""Contents of tensors, attributes, types and operators as plain values that compare equally in every process."""

from __future__ import annotations

import struct
import sys
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Key: TypeAlias = "int | str | bytes | tuple[Key, ...] | None"

DIGEST_SIZE = 16
_GRAPH_TYPES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_FLOAT = struct.Struct("<f")
_CHUNK_ELEMENTS = 1 << 16


def digest(*keys: Key) -> bytes:
    """Return the digest of plain values, whose ``repr`` is unambiguous."""
    return blake2b(repr(keys).encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()


def subgraphs(node: ir.Node) -> list[tuple[str, int, ir.Graph]]:
    """Return the graphs a node holds as (attribute name, index, graph), ordered by attribute name."""
    found: list[tuple[str, int, ir.Graph]] = []
    for attribute in node.attributes.data.values():
        if attribute.type not in _GRAPH_TYPES or attribute.is_ref():
            continue
        single = attribute.type == ir.AttributeType.GRAPH
        graphs = (attribute.as_graph(),) if single else attribute.as_graphs()
        found.extend((attribute.name, index, graph) for index, graph in enumerate(graphs))
    found.sort(key=lambda held: held[:2])
    return found


def present_inputs(node: ir.Node) -> tuple[ir.Value | None, ...]:
    """Return the inputs of a node without the missing ones at the end."""
    inputs = tuple(node.inputs)
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


def present_outputs(node: ir.Node) -> tuple[bool, ...]:
    """Return which outputs of a node are used, without unused ones at the end."""
    wanted = [bool(value.name or value.uses() or value.is_graph_output()) for value in node.outputs]
    while wanted and not wanted[-1]:
        wanted.pop()
    return tuple(wanted)


def type_key(type_: ir.TypeProtocol | None) -> Key:
    """Return kind and element type; denotations are not part of it."""
    if type_ is None:
        return None
    if isinstance(type_, (ir.SequenceType, ir.OptionalType)):
        return (type(type_).__name__, type_key(type_.elem_type))
    return (type(type_).__name__, int(type_.dtype))


def shape_key(shape: ir.Shape | None) -> Key:
    """Return the dimensions: numbers, names, or None if unknown."""
    if shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.value for dim in shape)


def operator(node: ir.Node) -> ir.OperatorIdentifier:
    """Return domain, operator type and overload."""
    return (node.domain, node.op_type, node.overload)


class Contents:
    """Keys of operators, attributes and tensors; digests of tensors are cached while the tensors live.

    Tensors are assumed to be immutable, as onnx_ir documents: an array changed in place keeps its old digest.
    """

    def __init__(self) -> None:
        self._tensors: WeakKeyDictionary[ir.TensorProtocol, bytes] = WeakKeyDictionary()

    def tensor(self, tensor: ir.TensorProtocol) -> bytes:
        """Return a digest of element type, shape and elements, independent of storage."""
        try:
            known = self._tensors.get(tensor)
        except TypeError:  # a class of someone else's that cannot be referred to weakly
            return tensor_digest(tensor)
        if known is None:
            known = self.tensor_key(tensor)
            self._tensors[tensor] = known
        return known

    def tensor_key(self, tensor: ir.TensorProtocol) -> bytes:
        """Return the key of a new tensor."""
        return tensor_digest(tensor)

    def initial_value(self, value: ir.Value) -> Key:
        """Return the key of the content of an initializer."""
        return None if value.const_value is None else self.tensor(value.const_value)

    def node(self, node: ir.Node) -> tuple[Key, ...]:
        """Return the key of a node without its wiring: operator, used outputs, attributes."""
        outputs = (True,) if len(node.outputs) == 1 else present_outputs(node)
        attributes = node.attributes.data
        if not attributes:
            return (node.domain, node.op_type, node.overload, outputs)
        return (node.domain, node.op_type, node.overload, outputs, *self.attributes(attributes.values()))

    def attributes(self, attributes: Iterable[ir.Attr]) -> list[tuple[str, int, Key]]:
        """Return the keys of attributes in order of name."""
        return sorted(map(self.attribute, attributes), key=itemgetter(0))

    def attribute(self, attribute: ir.Attr) -> tuple[str, int, Key]:
        """Return name, type and value; for graphs only their number."""
        reference = attribute.ref_attr_name
        value = self._attribute_value(attribute) if reference is None else ("reference", reference)
        return (attribute.name, attribute.type.value, value)

    def _attribute_value(self, attribute: ir.Attr) -> Key:
        kind, value = attribute.type, attribute.value
        if kind == ir.AttributeType.INT or value is None:
            return value
        if kind == ir.AttributeType.INTS:
            return tuple(value)
        if kind == ir.AttributeType.FLOAT:
            return float_bits(value)
        if kind == ir.AttributeType.STRING:
            return _utf8(value)
        if kind == ir.AttributeType.TENSOR:
            return self.tensor(value)
        if kind == ir.AttributeType.GRAPH:
            return 1
        return self._list_value(attribute)

    def _list_value(self, attribute: ir.Attr) -> Key:
        kind, value = attribute.type, attribute.value
        if kind == ir.AttributeType.FLOATS:
            return b"".join(float_bits(element) for element in value)
        if kind == ir.AttributeType.STRINGS:
            return tuple(_utf8(element) for element in value)
        if kind == ir.AttributeType.TENSORS:
            return tuple(self.tensor(element) for element in value)
        if kind == ir.AttributeType.GRAPHS:
            return len(value)
        if kind == ir.AttributeType.TYPE_PROTO:
            return (type_key(value.type), shape_key(value.shape))
        if kind == ir.AttributeType.TYPE_PROTOS:
            return tuple((type_key(element.type), shape_key(element.shape)) for element in value)
        raise ModelError(
            f"attribute '{attribute.name}' has type {kind.name}, which onnx_ir cannot represent",
            hint="make the tensor dense before importing the model",
        )


def float_bits(value: float) -> bytes:
    """Return the bits of a float attribute, which ONNX stores in single precision."""
    try:
        return _FLOAT.pack(value)
    except OverflowError:
        return _FLOAT.pack(float("inf") if value > 0 else float("-inf"))


def _utf8(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def tensor_digest(tensor: ir.TensorProtocol) -> bytes:
    """Return a digest of element type, shape and elements without copying large tensors."""
    shape = tuple(tensor.shape.numpy())
    hasher = blake2b(repr((int(tensor.dtype), shape)).encode(), digest_size=DIGEST_SIZE)
    try:
        for chunk in _elements(tensor):
            hasher.update(chunk)
    except (OSError, ValueError, TypeError, AssertionError) as e:
        raise ModelError(
            f"the elements of a {tensor.dtype.name} tensor cannot be read: {e}",
            where=f"tensor '{tensor.name}'",
            hint="check that its external data is present and as long as its shape asks for",
        ) from e
    return hasher.digest()


def _elements(tensor: ir.TensorProtocol) -> Iterator[bytes | memoryview]:
    if tensor.dtype == ir.DataType.STRING:
        for element in string_elements(tensor):
            yield len(element).to_bytes(8, "little")
            yield element
    elif tensor.dtype.bitwidth < 8:
        yield _packed(tensor)
    else:
        yield from _array_bytes(tensor.numpy())


def string_elements(tensor: ir.TensorProtocol) -> Iterable[bytes]:
    """Return the elements of a string tensor in order."""
    if isinstance(tensor, ir.StringTensor):
        return tensor.string_data()
    elements = cast("list[str | bytes]", tensor.numpy().reshape(-1).tolist())
    return map(_utf8, elements)


def _packed(tensor: ir.TensorProtocol) -> bytes:
    """Return elements narrower than a byte in ONNX packing, with the padding at the end cleared."""
    data = tensor.tobytes()
    used_bits = tensor.size * tensor.dtype.bitwidth % 8
    if not used_bits:
        return data
    return data[:-1] + bytes([data[-1] & ((1 << used_bits) - 1)])


def _array_bytes(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    if sys.byteorder == "big":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.flags.c_contiguous:
        # ml_dtypes elements have no buffer format: always view them as bytes.
        yield array.reshape(-1).view(np.uint8).data
        return
    flat = array.view(f"V{array.itemsize}").flat
    for start in range(0, array.size, _CHUNK_ELEMENTS):
        yield flat[start : start + _CHUNK_ELEMENTS].view(np.uint8).data
