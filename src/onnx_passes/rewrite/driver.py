"""The driver: applies rules from a worklist until none matches, at a cost proportional to the changes."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.core.errors import BudgetError, OnnxPassesError
from onnx_passes.core.naming import fold
from onnx_passes.core.records import RuleRecord
from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.graph.constants import is_constant_node, tensor_of_constant_node
from onnx_passes.graph.names import Container
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.index import IndexedRule, RuleIndex
from onnx_passes.rewrite.leftovers import Refusals
from onnx_passes.rewrite.match import Match, NodesByOperator, describe_node, opset_of
from onnx_passes.rewrite.nesting import with_nested
from onnx_passes.rewrite.replacement import prepare
from onnx_passes.rewrite.rule import Rule


class Shuffled(deque[ir.Node]):
    """A queue that returns any of its nodes; the same seed returns the same ones."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)  # noqa: S311 - an order, no secret

    def popleft(self) -> ir.Node:
        """Take one of the nodes."""
        self.rotate(-self._random.randrange(len(self)))
        return super().popleft()


def rewrite(
    model: ir.Model,
    rules: Sequence[Rule] | RuleIndex,
    context: Context | None = None,
    *,
    functions: bool = False,
    refusals: Refusals | None = None,
    thorough: bool = True,
) -> int:
    """Apply rules to a model until none matches; return the number of applications.

    Subgraphs are rewritten too, functions only on request. ``refusals`` records the reasons of refusals. Unless
    ``thorough``, rules are skipped, and their refusals not counted, if their requirements are plainly missing.
    """
    index = rules if isinstance(rules, RuleIndex) else RuleIndex(rules)
    context = context or Context()
    if context.skipped:
        index = RuleIndex([rule for rule in index.rules if fold(rule.name) not in context.skipped])
    records = [
        RuleRecord(rule.name, rule.source, owner="" if rule.owner is None else rule.owner.name) for rule in index.rules
    ]
    containers: list[Container] = [model.graph, *(model.functions.values() if functions else ())]
    applied = 0
    try:
        for container in containers:
            editor = Editor(model, context, container)
            applied += _Driver(editor, index, records, refusals, thorough=thorough).run()
    finally:
        context.report_rules(records)
    return applied


_WIDEST = 64
"""A value with more users is part of no match that owns it."""


class _Driver:
    def __init__(
        self,
        editor: Editor,
        index: RuleIndex,
        records: list[RuleRecord],
        refusals: Refusals | None = None,
        *,
        thorough: bool = True,
    ) -> None:
        self.editor = editor
        self.refusals = refusals
        self.index = index
        self.records = records
        seed = editor.context.shuffle_seed
        self.queue: deque[ir.Node] = deque() if seed is None else Shuffled(seed)
        self.queued: set[ir.Node] = set()
        self.budget = 0
        self.others = NodesByOperator() if any(rule.has_many_roots for rule in index.rules) else None
        self.wide: set[ir.Value] = set()
        self.thorough = thorough
        self.opset = opset_of(editor.scope.model, editor.scope.container)

    def run(self) -> int:
        for rule in self.index.rules:
            if rule.setup is not None:
                rule.setup()
        try:
            self.exhaust()
        finally:
            self.editor.nesting.sort()
            for rule in self.index.rules:
                if rule.cleanup is not None:
                    rule.cleanup()
        return self.editor.applied

    def exhaust(self) -> None:
        """Work off the queue; then look at all nodes again, as a check may look further than the neighbours.

        In a fixpoint, the next round does.
        """
        self.budget = 20 * self.seed() + 1000
        before = -1
        while before != self.editor.applied and not self.editor.stopped:
            before = self.editor.applied
            self.drain()
            if self.editor.context.runs_again:
                break
            if before != self.editor.applied and not self.editor.stopped:
                self.seed()

    def seed(self) -> int:
        """Queue every node that may be a root; returns the number of nodes."""
        count = 0
        for node in all_nodes(self.editor.scope.container):
            count += 1
            if holds_graphs(node):
                self.editor.nesting.enter(node)
            self.enter(node)
        return count

    def enter(self, node: ir.Node) -> None:
        """Register a node, and queue it if it may be a root."""
        if is_constant_node(node) and node.outputs[0].const_value is None:
            node.outputs[0].const_value = tensor_of_constant_node(node)
        if self.others is not None:
            self.others.add(node)
        self.push(node)

    def push(self, node: ir.Node, distance: int = 0) -> None:
        """Queue a node so far downstream of a change, if any of its rules looks as far."""
        if node not in self.queued and self.index.reach(node) > distance:
            self.queued.add(node)
            self.queue.append(node)

    def drain(self) -> None:
        while self.queue and not self.editor.stopped:
            node = self.queue.popleft()
            self.queued.discard(node)
            if self.editor.nesting.holds(node):
                for entry in self.index.candidates(node, thorough=self.thorough):
                    if (entry.rule.since <= self.opset or self.thorough) and self.try_rule(entry, node):
                        break

    def try_rule(self, entry: IndexedRule, node: ir.Node) -> bool:
        rule, record = entry.rule, self.records[entry.priority]
        record.tried += 1
        started = time.process_time()

        def refused(reason: str) -> None:
            record.matched += 1
            self.refuse(entry, node, reason)

        scope = self.editor.scope
        match = rule.find(
            scope.model,
            scope.container,
            node,
            entry.role,
            refused=refused,
            others=self.others,
            thorough=self.thorough,
        )
        changed = False
        if match is not None:
            record.matched += 1
            reason = self.apply(entry, match)
            if reason is None:
                record.applied += 1
                changed = True
            else:
                self.refuse(entry, node, reason)
        record.seconds += time.process_time() - started
        if self.editor.applied > self.budget:
            raise self.out_of_budget()
        return changed

    def refuse(self, entry: IndexedRule, node: ir.Node, reason: str) -> None:
        self.records[entry.priority].refused[reason] += 1
        if self.refusals is not None:
            self.refusals.add(node, entry.rule.size, reason)

    def apply(self, entry: IndexedRule, match: Match) -> str | None:
        """Apply a rule to its match; returns the reason if the rewrite is declined, vetoed or impossible."""
        rule, editor = entry.rule, self.editor
        builder = editor.builder()
        try:
            prepared = prepare(rule, match, builder, editor.scope, editor.nesting)
            if isinstance(prepared, str):
                builder.discard()
                return prepared
            around = _around(match)
            change = editor.commit(self.records[entry.priority], match, builder, prepared, rule.owner)
        except BaseException as error:
            builder.discard()
            if isinstance(error, OnnxPassesError) and error.where is None:
                error.where = f"rule '{rule.name}' ({rule.source}) at {describe_node(match.root)}"
            raise
        if isinstance(change, str):
            builder.discard()
            return change
        for node in change.added:
            for inner in with_nested(node):
                self.enter(inner)
        self.push_around([*change.added, *around])
        return None

    def push_around(self, nodes: Iterable[ir.Node]) -> None:
        """Queue nodes and all that a pattern rooted downstream could see them from."""
        level = [node for node in dict.fromkeys(nodes) if node.graph is not None]
        seen = set(level)
        reach = max(1, self.index.depth)
        for distance in range(reach):
            following: list[ir.Node] = []
            for node in level:
                self.push(node, distance)
                if distance + 1 < reach:
                    following.extend(self.downstream(node))
            level = [node for node in dict.fromkeys(following) if node not in seen]
            seen.update(level)

    def downstream(self, node: ir.Node) -> Iterable[ir.Node]:
        """Iterate over users, except of a value so widely used that no pattern could own it."""
        for output in node.outputs:
            if output in self.wide:
                continue
            uses = output.uses()
            if len(uses) > _WIDEST:
                self.wide.add(output)
                continue
            for use in uses:
                yield use.node

    def out_of_budget(self) -> BudgetError:
        busy = sorted((r for r in self.records if r.applied), key=lambda r: -r.applied)[:3]
        rules = ", ".join(f"'{r.name}' ({r.applied} times, {r.source})" for r in busy)
        return BudgetError(
            f"rewriting does not end: {self.editor.applied} applications, mostly of {rules}",
            hint="make sure that no rule undoes another one or matches its own result",
        )


def _around(match: Match) -> list[ir.Node]:
    """Return the consumers of replaced values, and the producers of values that the match used."""
    users = [use.node for value in match.output_values for use in value.uses()]
    producers = [
        producer
        for node in match.nodes
        for value in node.inputs
        if value is not None and (producer := value.producer()) is not None
    ]
    return [*users, *producers]
