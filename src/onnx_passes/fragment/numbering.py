"""Value numbers: equal for values that are computed by the same operators from the same inputs.

The number of a computed value is that of its operator (with its attributes, version, functions and the graphs that it
holds) and of what it reads, captured values included. Draws of random numbers are never equal within a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.hashing.semantics import Operation, Semantics


class ValueNumbers:
    """The value numbers of some models; values without a producer are equal only where they are entered so."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._keys: dict[Hashable, int] = {}
        self._numbers: dict[ir.Value, int] = {}
        self.operations: dict[ir.Node, Operation] = {}

    def __getitem__(self, value: ir.Value) -> int:
        """Return the number of a value; one that was not entered is equal to nothing else, unless it is constant."""
        found = self._numbers.get(value)
        if found is None:
            tensor = constant_tensor(value)
            key = ("value", value) if tensor is None else ("constant", self._semantics.tensor(tensor))
            found = self.enter(value, key)
        return found

    def enter(self, value: ir.Value, key: Hashable) -> int:
        """Enter a value as equal to all others of the same key."""
        found = self._numbers[value] = self._keys.setdefault(key, len(self._keys))
        return found

    def enter_nodes(self, nodes: Iterable[ir.Node]) -> Counter[Hashable]:
        """Enter the results of nodes of one model, in order; return how often each operation draws random numbers.

        Between models, draws of one operation from the same are equal if they come in the same order.
        """
        drawn, draws = Counter[Hashable](), Counter[Hashable]()
        for node in nodes:
            operation = self.operations[node] = self._semantics.operation(node)
            operands = tuple(None if value is None else self[value] for value in operation.operands)
            key: tuple[Hashable, ...] = (operation.key, operands)
            if operation.draws:
                drawn[key] += 1
                draws[operation.key] += 1
                key = (*key, drawn[key])
            for index, output in enumerate(node.outputs):
                if constant_tensor(output) is None:
                    self.enter(output, (*key, ("output", index)))
        return draws

    def keys(self) -> list[Hashable]:
        """List the keys of all numbers, in order."""
        return list(self._keys)
