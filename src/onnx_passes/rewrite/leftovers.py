"""What a conversion leaves as it was, and why: counted, in words, so that nothing stays in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.names import Container

ANY = "*"
"""Stands for all operators that a conversion does not name."""
IN_A_FUNCTION = "in a function of the model: run inline-functions first"


class Refusals:
    """The last reason for which rules refused each node: that of the largest pattern, which knows most of the place."""

    def __init__(self) -> None:
        self._by_node: dict[ir.Node, tuple[int, str]] = {}

    def add(self, node: ir.Node, size: int, reason: str) -> None:
        """Take note that a rule with a pattern of so many nodes refused a node it could end with."""
        if size >= self._by_node.get(node, (0, ""))[0]:
            self._by_node[node] = size, reason

    def reason(self, node: ir.Node) -> str:
        """Return why a node was refused; nothing, if no pattern fitted."""
        return self._by_node.get(node, (0, ""))[1]


class Leftovers:
    """Counts nodes that a conversion was asked for and that stay, by operator and reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, Counter[str]] = {}

    def add(self, operator: str, reason: str) -> None:
        """Count a node."""
        self._reasons.setdefault(operator, Counter())[reason] += 1

    def notes(self) -> Iterator[str]:
        """Say of each operator how many stay, the most frequent reasons first."""
        for operator, reasons in self._reasons.items():
            total = reasons.total()
            verb = "stays" if total == 1 else "stay"
            each = reasons.most_common()
            why = each[0][0] if len(each) == 1 else "; ".join(f"{count} × {reason}" for reason, count in each)
            yield f"{total} {operator} {verb}: {why}"


def leftovers_of_rules(
    model: ir.Model,
    converts: Mapping[str, str],
    refusals: Refusals,
    *,
    is_wanted: Callable[[ir.Node], bool],
    functions: bool,
) -> Leftovers:
    """Count what rules were to replace and did not.

    ``converts`` gives the operators, each with the reason where no pattern fitted; without one such nodes were not
    meant. ``functions`` tells that the rules looked into functions, too.
    """
    found = Leftovers()
    for container in _containers(model):
        inside = isinstance(container, ir.Function)
        for node in all_nodes(container):
            usual = converts.get(node.op_type, converts.get(ANY))
            if usual is None or node.op_identifier() in model.functions or not is_wanted(node):
                continue
            reason = IN_A_FUNCTION if inside and not functions else refusals.reason(node) or usual
            if reason:
                found.add(node.op_type, reason)
    return found


def _containers(model: ir.Model) -> Iterable[Container]:
    return model.graph, *model.functions.values()
