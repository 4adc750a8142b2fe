"""Which rules may fit a node, found from its operator and the operators of its producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.graph.traits import is_commutative
from onnx_passes.rewrite.patterns import children, may_be_uncomputed, operator_of
from onnx_passes.rewrite.rule import Rule

Operator = tuple[str, str]
_ANY_INPUT = -1


@dataclass(frozen=True, eq=False)
class Entry:
    """A rule, to be tried with a node as one of its roots."""

    priority: int
    role: int
    rule: Rule


_BY_PRIORITY = attrgetter("priority", "role")


@dataclass
class _Bucket:
    """Rules of one root operator: those tried always, and those that need a certain producer at some input."""

    always: list[Entry] = field(default_factory=list[Entry])
    by_producer: dict[int, dict[Operator, list[Entry]]] = field(default_factory=dict[int, dict[Operator, list[Entry]]])

    def candidates(self, node: ir.Node) -> list[Entry]:
        if not self.by_producer:
            return self.always
        found = self.always
        inputs = node.inputs
        for slot, table in self.by_producer.items():
            for value in inputs if slot == _ANY_INPUT else inputs[slot : slot + 1]:
                producer = None if value is None else value.producer()
                if producer is not None:
                    more = table.get((producer.domain, producer.op_type))
                    if more:
                        found = [*found, *more]
        return found if found is self.always else sorted(set(found), key=_BY_PRIORITY)


class RuleIndex:
    """Rules in priority order, indexed by root operator."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._buckets: dict[Operator, _Bucket] = {}
        self._wild: list[Entry] = []
        for priority, rule in enumerate(rules):
            for role, root in enumerate(rule.roots):
                self._add(Entry(priority, role, rule), root)

    def _add(self, entry: Entry, root: language.NodePattern) -> None:
        operator = operator_of(root)
        if operator is None:
            self._wild.append(entry)
            return
        bucket = self._buckets.setdefault(operator, _Bucket())
        needed = _needed_producer(entry.rule, root)
        if needed is None:
            bucket.always.append(entry)
            return
        slot, operators = needed
        for producer in operators:
            bucket.by_producer.setdefault(slot, {}).setdefault(producer, []).append(entry)

    def candidates(self, node: ir.Node) -> Sequence[Entry]:
        """List the rules worth trying at a node, by priority."""
        bucket = self._buckets.get((node.domain, node.op_type))
        if bucket is None:
            return self._wild
        found = bucket.candidates(node)
        return sorted({*found, *self._wild}, key=_BY_PRIORITY) if self._wild else found

    def covers(self, node: ir.Node) -> bool:
        """Tell whether any rule has such a node as its root."""
        return bool(self._wild) or (node.domain, node.op_type) in self._buckets


def _needed_producer(rule: Rule, root: language.NodePattern) -> tuple[int, list[Operator]] | None:
    """Find an input of the root that must come from certain operators: most nodes fail there."""
    for slot, value in enumerate(root.inputs):
        if may_be_uncomputed(value):
            continue
        operators = [operator_of(child) for child in children(value)]
        if all(operator is not None for operator in operators):
            swaps = rule.commute and is_commutative(str(root.domain), root.op_type)
            return (_ANY_INPUT if swaps else slot), [operator for operator in operators if operator is not None]
    return None
