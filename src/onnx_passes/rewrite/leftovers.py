"""Nodes that a conversion leaves unchanged, counted with their reasons, so that none is left silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.names import Container

ANY = "*"
"""Matches all operators that a conversion does not name."""
IN_A_FUNCTION = "in a function of the model: run inline-functions first"


class Refusals:
    """The last reason for which rules refused each node: that of the largest pattern, which knows most of the place."""

    def __init__(self) -> None:
        self._by_node: dict[ir.Node, tuple[int, str]] = {}

    def add(self, node: ir.Node, size: int, reason: str) -> None:
        """Record that a rule with a pattern of ``size`` nodes refused a node that it could end with."""
        if size >= self._by_node.get(node, (0, ""))[0]:
            self._by_node[node] = size, reason

    def reason(self, node: ir.Node) -> str:
        """Return the reason why a node was refused; empty if no pattern matched."""
        return self._by_node.get(node, (0, ""))[1]


class Leftovers:
    """Counts nodes that a conversion was asked for and that stay, by operator and reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, Counter[str]] = {}

    def add(self, operator: str, reason: str) -> None:
        """Count a node."""
        self._reasons.setdefault(operator, Counter())[reason] += 1

    def notes(self) -> Iterator[str]:
        """Describe the remaining nodes by operator, with the most frequent reasons first."""
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
    """Count the nodes that rules should have replaced and did not.

    ``converts`` maps the operators to the reason given if no pattern matched; without a reason, such nodes were not
    intended. With ``functions`` the rules also visited functions.
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
