"""Semantics of operators, element by element, written once over any number system.

``SEMANTICS`` is an open interface: an entry takes an ``OperatorView``, a node with its tensors and attributes, and
returns the tensors of its results. Operators without an entry are evaluated if they are elementwise, defined here or in
the model as functions, or functions by the standard; every other operator is an uninterpreted function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.operators import Interface
from onnx_passes.graph.schemas import schema_of
from onnx_passes.numbers.algebra import Algebra, Symbol, Tensor, UnsupportedError

if TYPE_CHECKING:
    from onnx_passes.ops.semantics.evaluation import Evaluation

_MISSING = object()


class Place(NamedTuple):
    """One use of a kernel: of another operator, or on elements in other places, it may round in another way."""

    operator: str
    params: Hashable
    operands: Hashable
    sums: bool = False


def arrays_key(arrays: Iterable[np.ndarray]) -> Hashable:
    """Return a key of elements with their places."""
    return tuple((array.shape, blake2b(array.tobytes(), digest_size=16).digest()) for array in arrays)


POOLING = "MaxPool"
"""The place of a maximum of windows: for other attributes and elsewhere, ONNX Runtime passes over other NaN."""
_EXACT_SEQUENCES = frozenset({"ReduceMax", "ReduceMin", "PoolMax", "Hardmax", "TopK", "TopKPlaces"})
"""Functions of sequences that round nothing."""


@dataclass(slots=True)
class OperatorView:
    """A node with its tensors and its attributes, references resolved."""

    node: ir.Node
    inputs: Sequence[Tensor | None]
    attributes: Mapping[str, ir.Attr]
    version: int
    evaluation: Evaluation

    @property
    def algebra(self) -> Algebra:
        """Return the algebra of the evaluation."""
        return self.evaluation.algebra

    def has(self, index: int) -> bool:
        """Return whether an input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def tensor(self, index: int) -> Tensor:
        """Return an input that has to be there."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise UnsupportedError(f"{self.node.op_type} lacks input {index}")
        return found

    def elements(self, index: int) -> np.ndarray:
        """Return the elements of an input that has to be there."""
        return self.tensor(index).elements(self.algebra)

    def known(self, index: int) -> np.ndarray | None:
        """Return the numbers of an input, None if it is left out. Raises UnsupportedError if they depend on data."""
        if not self.has(index):
            return None
        found = self.tensor(index).known
        if found is None:
            raise UnsupportedError(f"input {index} of {self.node.op_type} is not constant")
        return found

    def required(self, index: int) -> np.ndarray:
        """Return the numbers of an input. Raises UnsupportedError if they depend on data, or it is left out."""
        found = self.known(index)
        if found is None:
            raise UnsupportedError(f"{self.node.op_type} lacks input {index}")
        return found

    def integers(self, index: int, attribute: str = "") -> list[int] | None:
        """Return a list of integers: an input, or the attribute that older operator sets have instead."""
        if not self.has(index) and attribute in self.attributes:
            return [int(item) for item in self.attributes[attribute].value]
        found = self.known(index)
        return None if found is None else [int(item) for item in found.reshape(-1)]

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """Return an attribute, or the given default, or that of the standard."""
        if name in self.attributes:
            return self.attributes[name].value
        if default is not _MISSING:
            return default
        return dict(_defaults(self.node.domain, self.node.op_type, self.version)).get(name)

    def params(self) -> tuple[Any, ...]:
        """Return all attributes in a fixed order, defaults included, to tell two uses of an operator apart."""
        known = dict(_defaults(self.node.domain, self.node.op_type, self.version))
        rest = sorted(name for name in self.attributes if name not in known)
        return tuple(_plain(self.attributes[n].value if n in self.attributes else known[n]) for n in known) + tuple(
            (name, _plain(self.attributes[name].value)) for name in rest
        )

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a function to the sequences along the last axis."""
        self._note(symbol, operands)
        return self.algebra.sequence(symbol, operands)

    def vector(self, symbol: Symbol, operands: Sequence[np.ndarray], length: int) -> np.ndarray:
        """Make other sequences of those along the last axis."""
        self._note(symbol, operands)
        return self.algebra.vector(symbol, operands, length)

    def _note(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> None:
        """Note where a function of sequences is applied, if it rounds more than once."""
        pools, several = symbol.name == "PoolMax", operands[0].shape[-1] > 1 or len(operands) > 1
        rounds = symbol.dtype.is_floating_point() and symbol.name not in _EXACT_SEQUENCES and several
        if not self.algebra.exact or not (pools or rounds):
            return
        given = (x.elements(self.algebra) if x.known is None else x.known for x in self.inputs if x is not None)
        # Versions of MaxPool are the same function, and kernels for its attributes differ in NaN only.
        params = (self.node.op_type, self.params()) if pools else (self.version, self.params())
        name = POOLING if pools else self.node.op_type
        self.evaluation.places.add(Place(name, params, arrays_key(given), sums=not pools))

    def symbol(self, name: str, dtype: ir.DataType, *sources: ir.DataType, params: tuple[Any, ...] = ()) -> Symbol:
        """Name a function."""
        return Symbol(name, dtype, sources, params)

    def made(self, dtype: ir.DataType, elements: np.ndarray) -> Tensor:
        """Return a tensor of elements."""
        return Tensor(dtype, None, elements)


Semantics = Callable[[OperatorView], "Tensor | Sequence[Tensor]"]
SEMANTICS: Interface[Semantics] = Interface(
    "semantics",
    "what it computes, element by element, over any number system",
    "onnx_passes.ops.semantics.elementwise",
    "onnx_passes.ops.semantics.movement",
    "onnx_passes.ops.semantics.indexing",
    "onnx_passes.ops.semantics.reductions",
    "onnx_passes.ops.semantics.products",
    "onnx_passes.ops.semantics.normalizations",
    "onnx_passes.ops.semantics.quantizers",
    "onnx_passes.ops.semantics.bodies",
)


@functools.cache
def _defaults(domain: str, op_type: str, version: int) -> tuple[tuple[str, Any], ...]:
    import onnx

    schema = schema_of(domain, op_type, version)
    if schema is None:
        return ()
    return tuple(
        (name, onnx.helper.get_attribute_value(given.default_value) if given.default_value.name else None)
        for name, given in sorted(schema.attributes.items())
    )


def _plain(value: Any) -> Any:
    """Make an attribute hashable."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, ir.TensorProtocol):
        array = value.numpy()
        return (str(array.dtype), array.shape, array.tobytes())
    raise UnsupportedError(f"an attribute is a {type(value).__name__}")
