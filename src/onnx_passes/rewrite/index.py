"""Which rules may fit a node, found from its operator and the operators of its producers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import onnx_ir as ir

from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import is_commutative
from onnx_passes.rewrite.patterns import NodePattern, children, may_be_uncomputed
from onnx_passes.rewrite.rule import Rule

Operator = tuple[str, str]
_ANY_INPUT = -1


@dataclass(frozen=True, eq=False)
class IndexedRule:
    """A rule, to be tried with a node as one of its roots."""

    priority: int
    role: int
    rule: Rule


_BY_PRIORITY = attrgetter("priority", "role")


@dataclass
class _Bucket:
    """Rules of one root operator: unconditional rules, and rules that need a producer or constant at some input."""

    depth: int = 0
    """Nodes on the longest way up from the root in any of the patterns."""
    always: list[IndexedRule] = field(default_factory=list[IndexedRule])
    by_constant: dict[int, list[IndexedRule]] = field(default_factory=dict[int, list[IndexedRule]])
    by_producer: dict[int, dict[Operator, list[IndexedRule]]] = field(
        default_factory=dict[int, dict[Operator, list[IndexedRule]]]
    )

    def candidates(self, node: ir.Node, *, thorough: bool) -> list[IndexedRule]:
        found = self.always
        inputs = node.inputs
        for slot, entries in self.by_constant.items():
            if thorough or any(map(is_constant, inputs if slot == _ANY_INPUT else inputs[slot : slot + 1])):
                found = [*found, *entries]
        for slot, table in self.by_producer.items():
            for value in inputs if slot == _ANY_INPUT else inputs[slot : slot + 1]:
                producer = None if value is None else value.producer()
                if producer is not None:
                    more = table.get((producer.domain, producer.op_type))
                    if more:
                        found = [*found, *more]
        return found if found is self.always else sorted(set(found), key=_BY_PRIORITY)

    def add(self, entry: IndexedRule, root: NodePattern) -> None:
        self.depth = max(self.depth, entry.rule.depth)
        producer, constant = _needed_producer(entry.rule, root), _needed_constant(entry.rule, root)
        if producer is not None:
            slot, operators = producer
            for operator in operators:
                self.by_producer.setdefault(slot, {}).setdefault(operator, []).append(entry)
        elif constant is not None:
            self.by_constant.setdefault(constant, []).append(entry)
        else:
            self.always.append(entry)


class RuleIndex:
    """Rules in priority order, indexed by root operator; those of an operator are compiled when it is first met."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.depth = 0
        """The depth of the patterns that are compiled."""
        self._rules_of: dict[Operator, list[int]] = {}
        self._buckets: dict[Operator, _Bucket] = {}
        self._wild: list[IndexedRule] = []
        for priority, rule in enumerate(rules):
            for operator in dict.fromkeys(rule.operators):
                if operator is not None:
                    self._rules_of.setdefault(operator, []).append(priority)
                    continue
                self.depth = max(self.depth, rule.depth)
                self._wild += [
                    IndexedRule(priority, i, rule) for i, root in enumerate(rule.roots) if root.operator is None
                ]
        self._wild_depth = self.depth

    def candidates(self, node: ir.Node, *, thorough: bool = True) -> Sequence[IndexedRule]:
        """List the rules worth trying at a node, by priority; if ``thorough``, also to hear why they do not fit."""
        operator = (node.domain, node.op_type)
        bucket = self._buckets.get(operator)
        if bucket is None:
            if operator not in self._rules_of:
                return self._wild
            bucket = self._compiled(operator)
        found = bucket.candidates(node, thorough=thorough)
        return sorted({*found, *self._wild}, key=_BY_PRIORITY) if self._wild else found

    def _compiled(self, operator: Operator) -> _Bucket:
        bucket = _Bucket()
        for priority in self._rules_of[operator]:
            rule = self.rules[priority]
            for role, root in enumerate(rule.roots):
                if root.operator == operator:
                    bucket.add(IndexedRule(priority, role, rule), root)
        self.depth = max(self.depth, bucket.depth)
        # Only now: other threads look at the same index.
        self._buckets[operator] = bucket
        return bucket

    def covers(self, node: ir.Node) -> bool:
        """Return whether any rule has such a node as its root."""
        return self.reach(node) > 0

    def reach(self, node: ir.Node) -> int:
        """Return the depth of the deepest pattern rooted at such a node; 0 if no rule has such a node as its root.

        A node whose rules are not compiled was never visited: after any change it must be.
        """
        operator = (node.domain, node.op_type)
        if operator not in self._rules_of:
            return self._wild_depth
        bucket = self._buckets.get(operator)
        return sys.maxsize if bucket is None else max(bucket.depth, self._wild_depth)


def _needed_producer(rule: Rule, root: NodePattern) -> tuple[int, list[Operator]] | None:
    """Find an input of the root that must come from certain operators: most nodes fail there."""
    for slot, value in enumerate(root.inputs):
        if may_be_uncomputed(value):
            continue
        operators = [child.operator for child in children(value)]
        if all(operator is not None for operator in operators):
            return _place(rule, root, slot), [operator for operator in operators if operator is not None]
    return None


def _needed_constant(rule: Rule, root: NodePattern) -> int | None:
    """Find an input of the root that must be constant."""
    for slot, value in enumerate(root.inputs):
        if value is not None and value.name in rule.constants:
            return _place(rule, root, slot)
    return None


def _place(rule: Rule, root: NodePattern, slot: int) -> int:
    """Return the position of a pattern input among the inputs of a node; any position if operands may be swapped."""
    swaps = rule.commute and is_commutative(root.domain, root.op_type)
    return _ANY_INPUT if swaps else slot
