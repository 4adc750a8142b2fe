"""Isomorphism of graphs: equal wiring, regardless of names and of further ignored content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph.equality import Structure, compare
from onnx_passes.graph.hashing.content import Contents, Key, digest
from onnx_passes.graph.lockstep import FirstDifference

if TYPE_CHECKING:
    from collections.abc import Iterable

Relaxation: TypeAlias = Literal["constants", "attributes", "interface"]

_RELAXATIONS = ("constants", "attributes", "interface")
_CONSTANT = ("", "Constant", "")


def isomorphic(a: Structure, b: Structure, *, ignore: Iterable[Relaxation] = ()) -> bool:
    """Return whether two models have equal wiring, except for ignored content.

    ``constants``: elements of tensors, and contents of Constant nodes; type and shape still count.
    ``attributes``: all attributes except graphs and those of Constant nodes.
    ``interface``: the names of inputs and outputs; their order and types still count.

    Nodes that reach no output are equal if their operands and consumers are.
    """
    ignored = set[str](ignore)
    for word in ignored.difference(_RELAXATIONS):
        raise UsageError(f"'{word}' cannot be ignored", hint=did_you_mean(word, _RELAXATIONS))
    contents = _RelaxedContents(constants="constants" in ignored, attributes="attributes" in ignored)
    return not isinstance(compare(a, b, contents, names="interface" not in ignored), FirstDifference)


class _RelaxedContents(Contents):
    """Keys without ignored content."""

    def __init__(self, *, constants: bool, attributes: bool) -> None:
        super().__init__()
        self._ignore_constants = constants
        self._ignore_attributes = attributes

    def tensor(self, tensor: ir.TensorProtocol) -> bytes:
        """Return the digest of a tensor, without its elements if constants are ignored."""
        if not self._ignore_constants:
            return super().tensor(tensor)
        return digest(int(tensor.dtype), tuple(tensor.shape.numpy()))

    def node(self, node: ir.Node) -> tuple[Key, ...]:
        """Return the key of a node without the ignored attributes."""
        key = super().node(node)
        operator, outputs, attributes = key[:3], key[3], key[4:]
        if operator == _CONSTANT:
            if not self._ignore_constants:
                return key
            return (*operator, outputs, *map(self._held, node.attributes.values()))
        if not self._ignore_attributes:
            return key
        graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        kept = {attribute.name for attribute in node.attributes.values() if attribute.type in graphs}
        kept_keys = (entry for entry in attributes if isinstance(entry, tuple) and entry[0] in kept)
        return (*operator, outputs, *kept_keys)

    def _held(self, attribute: ir.Attr) -> Key:
        """Return the key of a constant without its elements: type and shape."""
        if attribute.type == ir.AttributeType.TENSOR:
            return self.attribute(attribute)
        value = cast("object", attribute.value)
        length = len(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else None
        return (attribute.name, int(attribute.type), length)
