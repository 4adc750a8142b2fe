"""A node on its way to a lower version of the operator set: how it is written, and what is known of its values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper


class NoEquivalentError(Exception):
    """A node uses something that a version does not have; the text says what."""


@dataclass
class Form:
    """One node, and what had to be put in front of it so far.

    Breaks of meaning are written in terms of it: read what the node uses, then say how an older version writes it.
    """

    node: onnx.NodeProto
    constants: Mapping[str, onnx.TensorProto]
    types: Mapping[str, onnx.TypeProto]
    used: frozenset[str] = frozenset()
    """Results of the node that somebody reads."""
    helpers: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def refuse(self, reason: str) -> NoReturn:
        """Say what the node uses that the version below does not have."""
        raise NoEquivalentError(reason)

    def input(self, index: int) -> str:
        """Return the name of an input; nothing if it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def constant(self, index: int) -> np.ndarray | None:
        """Return the value of an input if it is a small constant."""
        return self.constant_of(self.input(index))

    def constant_of(self, name: str) -> np.ndarray | None:
        """Return a small constant by name."""
        held = (node.attribute[0].t for node in self.helpers if node.op_type == "Constant" and node.output[0] == name)
        tensor = self.constants[name] if name in self.constants else next(held, None)
        return None if tensor is None else onnx.numpy_helper.to_array(tensor)

    def required(self, index: int, what: str) -> np.ndarray:
        """Return the value of an input that has to be constant."""
        array = self.constant(index)
        if array is None:
            self.refuse(f"'{what}' is not constant")
        return array

    def dtype(self, index: int) -> int | None:
        """Return the element type of an input."""
        name = self.input(index)
        if name in self.constants:
            return self.constants[name].data_type
        return self.types[name].tensor_type.elem_type or None if name in self.types else None

    def dims(self, index: int) -> list[int | None] | None:
        """Return the sizes of an input, as far as they are numbers."""
        name = self.input(index)
        if name in self.constants:
            return list(self.constants[name].dims)
        type_ = self.types.get(name)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in type_.tensor_type.shape.dim]

    def size(self, axis: int) -> int | None:
        """Return the size of the first input along an axis, if it is a number."""
        dims = self.dims(0)
        return None if dims is None else dims[axis]

    def rank(self, index: int = 0) -> int:
        """Return the rank of an input that has to be known."""
        dims = self.dims(index)
        if dims is None:
            self.refuse("the rank is not known")
        return len(dims)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, texts as text."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def set(self, name: str, value: Any) -> None:
        """Give an attribute a value."""
        self.drop(name)
        self.node.attribute.append(onnx.helper.make_attribute(name, value))

    def drop(self, *names: str) -> None:
        """Leave out attributes."""
        kept = [attribute for attribute in self.node.attribute if attribute.name not in names]
        del self.node.attribute[:]
        self.node.attribute.extend(kept)

    def set_inputs(self, names: Sequence[str]) -> None:
        """Take other inputs; those that are left out at the end are not written."""
        kept = list(names)
        while kept and not kept[-1]:
            kept.pop()
        self.node.input[:] = kept

    def hold(self, array: np.ndarray) -> str:
        """Put a constant in front of the node."""
        name = f"{self.node.output[0]}.{next(self.numbers)}"
        tensor = onnx.numpy_helper.from_array(array)
        self.helpers.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        return name

    def compute(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Put another node in front of it; returns the name of its result."""
        name = f"{self.node.output[0]}.{next(self.numbers)}"
        self.helpers.append(onnx.helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def become(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Make the node another one that yields the same."""
        self.node.op_type = op_type
        self.set_inputs(inputs)
        del self.node.attribute[:]
        for name, value in attributes.items():
            self.set(name, value)
