"""Which rules may fit a node, found from its operator and the operators of its producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.graph.constants import is_constant
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
    """Rules of one root operator: those tried always, and those that need a producer or a constant at some input."""

    always: list[Entry] = field(default_factory=list[Entry])
    by_constant: dict[int, list[Entry]] = field(default_factory=dict[int, list[Entry]])
    by_producer: dict[int, dict[Operator, list[Entry]]] = field(default_factory=dict[int, dict[Operator, list[Entry]]])

    def candidates(self, node: ir.Node, *, thorough: bool) -> list[Entry]:
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
        producer, constant = _needed_producer(entry.rule, root), _needed_constant(entry.rule, root)
        if producer is not None:
            slot, operators = producer
            for operator in operators:
                bucket.by_producer.setdefault(slot, {}).setdefault(operator, []).append(entry)
        elif constant is not None:
            bucket.by_constant.setdefault(constant, []).append(entry)
        else:
            bucket.always.append(entry)

    def candidates(self, node: ir.Node, *, thorough: bool = True) -> Sequence[Entry]:
        """List the rules worth trying at a node, by priority; if ``thorough``, also to hear why they do not fit."""
        bucket = self._buckets.get((node.domain, node.op_type))
        if bucket is None:
            return self._wild
        found = bucket.candidates(node, thorough=thorough)
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
            return _place(rule, root, slot), [operator for operator in operators if operator is not None]
    return None


def _needed_constant(rule: Rule, root: language.NodePattern) -> int | None:
    """Find an input of the root that must be constant."""
    for slot, value in enumerate(root.inputs):
        if value is not None and value.name in rule.constants:
            return _place(rule, root, slot)
    return None


def _place(rule: Rule, root: language.NodePattern, slot: int) -> int:
    """Return where an input of the pattern may be found among those of a node."""
    swaps = rule.commute and is_commutative(str(root.domain), root.op_type)
    return _ANY_INPUT if swaps else slot
