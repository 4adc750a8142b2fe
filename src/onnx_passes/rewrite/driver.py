"""The driver: applies rules from a worklist until none fits, at a cost that grows with what changes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.core.errors import BudgetError, OnnxPassesError
from onnx_passes.core.records import Application, RuleRecord
from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.graph.names import Container
from onnx_passes.rewrite.index import Entry, RuleIndex
from onnx_passes.rewrite.leftovers import Refusals
from onnx_passes.rewrite.match import Match, NodesByOperator, describe_node
from onnx_passes.rewrite.nesting import Nesting
from onnx_passes.rewrite.order import with_nested
from onnx_passes.rewrite.replacement import Replacement, prepare
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.scope import Scope
from onnx_passes.rewrite.splice import Change, splice


def rewrite(
    model: ir.Model,
    rules: Sequence[Rule] | RuleIndex,
    context: Context | None = None,
    *,
    functions: bool = False,
    refusals: Refusals | None = None,
) -> int:
    """Apply rules to a model until none fits any more; returns the number of applications.

    Subgraphs are rewritten too, functions only if asked. ``refusals`` gets to know why nodes were refused.
    """
    index = rules if isinstance(rules, RuleIndex) else RuleIndex(rules)
    context = context or Context()
    records = [
        RuleRecord(rule.name, rule.source, owner="" if rule.owner is None else rule.owner.name) for rule in index.rules
    ]
    containers: list[Container] = [model.graph, *(model.functions.values() if functions else ())]
    applied = 0
    try:
        for container in containers:
            applied += _Driver(Scope(model, container), index, records, context, refusals).run()
    finally:
        context.report_rules(records)
    return applied


class _Driver:
    def __init__(
        self,
        scope: Scope,
        index: RuleIndex,
        records: list[RuleRecord],
        context: Context,
        refusals: Refusals | None = None,
    ) -> None:
        self.scope = scope
        self.refusals = refusals
        self.index = index
        self.records = records
        self.context = context
        self.queue: deque[ir.Node] = deque()
        self.queued: set[ir.Node] = set()
        self.applied = 0
        self.budget = 0
        self.stopped = False
        self.nesting = Nesting(scope.container)
        self.others = NodesByOperator() if any(len(rule.roots) > 1 for rule in index.rules) else None
        self.reach = max((rule.depth for rule in index.rules), default=1)
        self.widest = 2 * max((rule.size for rule in index.rules), default=1) + 2
        self.wide: set[ir.Value] = set()

    def run(self) -> int:
        for rule in self.index.rules:
            if rule.setup is not None:
                rule.setup()
        try:
            self.exhaust()
        finally:
            self.nesting.sort()
            for rule in self.index.rules:
                if rule.cleanup is not None:
                    rule.cleanup()
        return self.applied

    def exhaust(self) -> None:
        """Work off the queue; then look at all nodes again, as a check may look further than the neighbours."""
        self.budget = 20 * self.seed() + 1000
        before = -1
        while before != self.applied and not self.stopped:
            before = self.applied
            self.drain()
            if before != self.applied and not self.stopped:
                self.seed()

    def seed(self) -> int:
        """Queue every node that may be a root; returns the number of nodes."""
        count = 0
        for node in all_nodes(self.scope.container):
            count += 1
            self.enter(node)
        return count

    def enter(self, node: ir.Node) -> None:
        """Take note of a node, and queue it if it may be a root."""
        if node.op_type == "Constant" and node.domain == "" and node.outputs[0].const_value is None:
            node.outputs[0].const_value = tensor_of_constant_node(node)
        if holds_graphs(node):
            self.nesting.enter(node)
        if self.others is not None:
            self.others.add(node)
        self.push(node)

    def push(self, node: ir.Node) -> None:
        if node not in self.queued and self.index.covers(node):
            self.queued.add(node)
            self.queue.append(node)

    def drain(self) -> None:
        while self.queue and not self.stopped:
            node = self.queue.popleft()
            self.queued.discard(node)
            if self.nesting.holds(node):
                for entry in self.index.candidates(node):
                    if self.try_rule(entry, node):
                        break

    def try_rule(self, entry: Entry, node: ir.Node) -> bool:
        rule, record = entry.rule, self.records[entry.priority]
        record.tried += 1
        started = time.perf_counter()

        def refused(reason: str) -> None:
            record.matched += 1
            self.refuse(entry, node, reason)

        match = rule.find(self.scope.model, self.scope.container, node, entry.role, refused=refused, others=self.others)
        changed = False
        if match is not None:
            record.matched += 1
            reason = self.apply(rule, match)
            if reason is None:
                record.applied += 1
                changed = True
            else:
                self.refuse(entry, node, reason)
        record.seconds += time.perf_counter() - started
        if self.applied > self.budget:
            raise self.out_of_budget()
        return changed

    def refuse(self, entry: Entry, node: ir.Node, reason: str) -> None:
        self.records[entry.priority].refused[reason] += 1
        if self.refusals is not None:
            self.refusals.add(node, entry.rule.size, reason)

    def apply(self, rule: Rule, match: Match) -> str | None:
        """Apply a rule to its match; returns the reason if the rewrite is declined, vetoed or impossible."""
        in_graph = isinstance(self.scope.container, ir.Graph)
        builder = Builder(
            self.scope.container.opset_imports,
            initializers_allowed=in_graph,
            graphs_of_model=self.nesting.graphs,
        )
        try:
            prepared = prepare(rule, match, builder, self.scope, self.nesting)
            if isinstance(prepared, str):
                builder.discard()
                return prepared
            application = self.announce(rule, match, builder, prepared)
            veto = self.context.before_rewrite(application)
        except BaseException as error:
            builder.discard()
            if isinstance(error, OnnxPassesError) and error.where is None:
                error.where = f"rule '{rule.name}' ({rule.source}) at {describe_node(match.root)}"
            raise
        if veto is not None:
            builder.discard()
            self.stopped = True
            return veto
        around = _around(match)
        change = splice(self.scope, builder, match, prepared.values)
        self.applied += 1
        application.added = tuple(change.added)
        self.follow(change, prepared, around)
        self.context.after_rewrite(application)
        return None

    def announce(self, rule: Rule, match: Match, builder: Builder, replacement: Replacement) -> Application:
        return Application(
            number=self.context.next_number(),
            step=self.context.record,
            rule=rule.name,
            source=rule.source,
            graph=match.root.graph or self.scope.container,
            root=match.root,
            matched=match.nodes,
            added=tuple(builder.nodes),
            replaced=tuple(zip(match.output_values, replacement.values, strict=True)),
            initializers=tuple(builder.initializers),
            owner=rule.owner,
        )

    def follow(self, change: Change, replacement: Replacement, around: list[ir.Node]) -> None:
        """Take note of a change, and queue what a rule may fit now."""
        for node in change.added:
            for inner in with_nested(node):
                self.enter(inner)
        sources = [producer for value in replacement.values if (producer := value.producer()) is not None]
        self.nesting.changed([*change.added, *sources], replacement.unsorted)
        self.push_around([*change.added, *around])

    def push_around(self, nodes: Iterable[ir.Node]) -> None:
        """Queue nodes and all that a pattern rooted downstream could see them from."""
        level = [node for node in dict.fromkeys(nodes) if node.graph is not None]
        seen = set(level)
        for distance in range(self.reach):
            following: list[ir.Node] = []
            for node in level:
                self.push(node)
                if distance + 1 < self.reach:
                    following.extend(self.downstream(node))
            level = [node for node in dict.fromkeys(following) if node not in seen]
            seen.update(level)

    def downstream(self, node: ir.Node) -> Iterable[ir.Node]:
        """Iterate over users, except of a value so widely used that no pattern could own it."""
        for output in node.outputs:
            if output in self.wide:
                continue
            uses = output.uses()
            if len(uses) > self.widest:
                self.wide.add(output)
                continue
            for use in uses:
                yield use.node

    def out_of_budget(self) -> BudgetError:
        busy = sorted((r for r in self.records if r.applied), key=lambda r: -r.applied)[:3]
        rules = ", ".join(f"'{r.name}' ({r.applied} times, {r.source})" for r in busy)
        return BudgetError(
            f"rewriting does not end: {self.applied} applications, mostly of {rules}",
            hint="make sure that no rule undoes another one or matches its own result",
        )


def _around(match: Match) -> list[ir.Node]:
    """List the users of what is replaced, and the producers of what the match used: they lose a user."""
    users = [use.node for value in match.output_values for use in value.uses()]
    producers = [
        producer
        for node in match.nodes
        for value in node.inputs
        if value is not None and (producer := value.producer()) is not None
    ]
    return [*users, *producers]
