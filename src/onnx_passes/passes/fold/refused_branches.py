"""Impossible branches: an operator after the If refuses the rank of their results."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import cast

import onnx_ir as ir

from onnx_passes.graph.arguments import integers
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.traits import is_elementwise

_RECURRENT = MappingProxyType({"GRU": (0, 5), "LSTM": (0, 5, 6), "RNN": (0, 5)})
"""Inputs of recurrent operators that must have three axes: the sequence and states."""
_KEEP_RANK = frozenset({"Transpose", "Softmax", "LogSoftmax", "CumSum"})
"""Operators that are not elementwise and give back as many axes as they get."""
_STEPS = 1000


def remaining_branch(node: ir.Node, branches: Sequence[ir.Graph]) -> ir.Graph | None:
    """Return the only branch of an If whose results no operator refuses, if it is the only one."""
    assumed = [_Knowledge(node, branch) for branch in branches]
    # What gives the same ranks fares the same.
    if len({known.returned for known in assumed}) == 1:
        return None
    accepted = [branch for branch, known in zip(branches, assumed, strict=True) if not _is_refused(node, known)]
    return accepted[0] if len(accepted) == 1 else None


def _is_refused(node: ir.Node, known: _Knowledge) -> bool:
    """Return whether an operator refuses the values that follow from a branch; distant ones are not found."""
    waiting = deque(_readers(node.outputs, node))
    for _ in range(_STEPS):
        if not waiting:
            return False
        reader = waiting.popleft()
        if known.is_refused_by(reader):
            return True
        waiting.extend(_readers(known.learn(reader), node))
    return False


def _readers(values: Iterable[ir.Value], node: ir.Node) -> list[ir.Node]:
    """Return the consumers that post-dominate the If."""
    return [user for value in values for user, _ in value.uses() if user.graph is node.graph]


class _Knowledge:
    """Ranks and numbers that follow if an If takes a branch; ``returned`` are the ranks of its own results."""

    def __init__(self, node: ir.Node, branch: ir.Graph) -> None:
        self._ranks: dict[ir.Value, int] = {}
        self._numbers: dict[ir.Value, int] = {}
        self._assume(node, branch)
        self.returned = tuple(self._ranks.get(value) for value in node.outputs)

    def _assume(self, node: ir.Node, branch: ir.Graph) -> list[ir.Value]:
        """Assume a branch; return the results of the If with new facts."""
        for inner in branch:
            self.learn(inner)
        learnt: list[ir.Value] = []
        for value, result in zip(node.outputs, branch.outputs, strict=False):
            found = self._rank(result)
            if found is not None and value not in self._ranks:
                self._ranks[value] = found
                learnt.append(value)
        return learnt

    def is_refused_by(self, node: ir.Node) -> bool:
        """Return whether an affected node refuses the rank of an input."""
        if node.domain != "" or not any(value.uses() or value.is_graph_output() for value in node.outputs):
            return False
        found = [None if value is None else self._ranks.get(value) for value in node.inputs]
        if node.op_type == "Conv":
            return found[0] is not None and self._rank(node.inputs[1]) not in (None, found[0])
        return any(found[index] not in (None, 3) for index in _RECURRENT.get(node.op_type, ()) if index < len(found))

    def learn(self, node: ir.Node) -> list[ir.Value]:
        """Derive facts about a node; return the results with new facts."""
        if node.domain != "" or not node.inputs:
            return []
        if node.op_type == "If":
            return self._follow(node)
        result = node.outputs[0]
        found, number = self._rank_of(node), self._number_of(node)
        is_new = (found is not None and result not in self._ranks) or (
            number is not None and result not in self._numbers
        )
        if found is not None:
            self._ranks[result] = found
        if number is not None:
            self._numbers[result] = number
        return [result] if is_new else []

    def _follow(self, node: ir.Node) -> list[ir.Value]:
        condition = self._number(node.inputs[0])
        branch = None if condition is None else node.attributes.get("then_branch" if condition else "else_branch")
        return [] if branch is None or branch.is_ref() else self._assume(node, branch.as_graph())

    def _rank(self, value: ir.Value | None) -> int | None:
        if value is None or value in self._ranks:
            return None if value is None else self._ranks[value]
        # What branches declare of their results holds only where they are taken, if there.
        return None if value.is_graph_output() else rank(value)

    def _number(self, value: ir.Value | None) -> int | None:
        if value is None or value in self._numbers:
            return None if value is None else self._numbers[value]
        array = constant(value)
        return int(array.item()) if array is not None and array.size == 1 and array.dtype.kind in "biu" else None

    def _rank_of(self, node: ir.Node) -> int | None:
        first = self._rank(node.inputs[0])
        if node.op_type in ("Shape", "Size"):
            return int(node.op_type == "Shape")
        if node.op_type in ("Squeeze", "Unsqueeze"):
            axes = integers(node, 1, "axes")
            added = None if axes is None else len(axes) if node.op_type == "Unsqueeze" else -len(axes)
            return None if first is None or added is None else first + added
        if is_elementwise(node):
            ranks = [self._rank(value) for value in node.inputs if value is not None]
            return None if None in ranks else max(cast(list[int], ranks), default=None)
        return first if node.op_type in _KEEP_RANK else None

    def _number_of(self, node: ir.Node) -> int | None:
        """Return the number that a node computes, if it follows from a rank."""
        first, operator = node.inputs[0], node.op_type
        if operator in ("Shape", "Size"):
            shape = None if first is None else first.producer()
            is_whole = shape is not None and shape.op_type == "Shape" and not shape.attributes
            return self._rank(shape.inputs[0]) if shape is not None and is_whole else None
        number = self._numbers.get(first) if first is not None else None
        if number is None:
            return None
        if operator == "Equal":
            other = self._number(node.inputs[1])
            return None if other is None else int(number == other)
        if operator == "Not":
            return 1 - number
        return number if operator in ("Identity", "Squeeze", "Unsqueeze") else None
