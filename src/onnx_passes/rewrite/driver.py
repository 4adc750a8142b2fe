"""The driver: applies rules from a worklist until none fits, at a cost that grows with what changes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

import onnx_ir as ir
from onnxscript.rewriter._basics import MatchFailureError  # pyright: ignore[reportPrivateUsage]

from onnx_passes.core.base import Context
from onnx_passes.core.errors import BudgetError, OnnxPassesError
from onnx_passes.core.records import Application, RuleRecord
from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.graph.names import Container
from onnx_passes.rewrite.builder import Builder
from onnx_passes.rewrite.index import Entry, RuleIndex
from onnx_passes.rewrite.match import Match, NodesByOperator
from onnx_passes.rewrite.order import Order
from onnx_passes.rewrite.refusal import Refusal, reason_of
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.splice import Change, Scope, check_replacement, splice


def rewrite(
    model: ir.Model,
    rules: Sequence[Rule] | RuleIndex,
    context: Context | None = None,
    *,
    functions: bool = False,
) -> int:
    """Apply rules to a model until none fits any more; returns the number of applications.

    Subgraphs are rewritten too, functions only if asked.
    """
    index = rules if isinstance(rules, RuleIndex) else RuleIndex(rules)
    context = context or Context()
    records = [RuleRecord(rule.name, rule.source) for rule in index.rules]
    containers: list[Container] = [model.graph, *(model.functions.values() if functions else ())]
    applied = 0
    try:
        for container in containers:
            applied += _Driver(Scope(model, container), index, records, context).run()
    finally:
        context.report_rules(records)
    return applied


class _Driver:
    def __init__(self, scope: Scope, index: RuleIndex, records: list[RuleRecord], context: Context) -> None:
        self.scope = scope
        self.index = index
        self.records = records
        self.context = context
        self.queue: deque[ir.Node] = deque()
        self.queued: set[ir.Node] = set()
        self.applied = 0
        self.budget = 0
        self.stopped = False
        self.unsorted: dict[ir.Graph, None] = {}
        self.orders: dict[ir.Graph, Order] = {}
        self.owners: dict[ir.Graph, ir.Node] = {}
        self.reach = max((rule.depth for rule in index.rules), default=1)
        self.widest = 2 * max((rule.size for rule in index.rules), default=1) + 2
        self.others = NodesByOperator() if any(len(rule.roots) > 1 for rule in index.rules) else None

    def run(self) -> int:
        for rule in self.index.rules:
            if rule.setup is not None:
                rule.setup()
        nodes = self.seed()
        self.budget = 20 * nodes + 1000
        while True:
            before = self.applied
            self.drain()
            if self.applied == before or self.stopped:
                break
            self.seed()
        for graph in self.unsorted:
            graph.sort()
        for rule in self.index.rules:
            if rule.cleanup is not None:
                rule.cleanup()
        return self.applied

    def seed(self) -> int:
        """Queue every node that may be a root; a check may look further than the neighbours of a change."""
        count = 0
        covers = self.index.covers
        for node in self.scope.container.all_nodes():
            count += 1
            if node.op_type == "Constant" and node.outputs[0].const_value is None and node.domain == "":
                node.outputs[0].const_value = tensor_of_constant_node(node)
            for graph in subgraphs_of(node) if node.attributes else ():
                self.owners[graph] = node
            if self.others is not None:
                self.others.add(node)
            if covers(node):
                self.push(node)
        return count

    def push(self, node: ir.Node) -> None:
        if node not in self.queued:
            self.queued.add(node)
            self.queue.append(node)

    def drain(self) -> None:
        candidates = self.index.candidates
        while self.queue and not self.stopped:
            node = self.queue.popleft()
            self.queued.discard(node)
            if node.graph is None:
                continue
            for entry in candidates(node):
                if self.try_rule(entry, node):
                    break

    def try_rule(self, entry: Entry, node: ir.Node) -> bool:
        rule, record = entry.rule, self.records[entry.priority]
        record.tried += 1
        started = time.perf_counter()

        def refused(reason: str) -> None:
            record.matched += 1
            record.refused[reason] += 1

        match = rule.find(self.scope.model, self.scope.container, node, entry.role, refused=refused, others=self.others)
        changed = False
        if match is not None:
            record.matched += 1
            reason = self.apply(rule, match)
            if reason is None:
                record.applied += 1
                changed = True
            else:
                record.refused[reason] += 1
        record.seconds += time.perf_counter() - started
        return changed

    def apply(self, rule: Rule, match: Match) -> str | None:
        """Apply a rule to its match; returns the reason if the rewrite is declined, vetoed or impossible."""
        graph = match.root.graph
        assert graph is not None
        if rule.has_many_outputs and self.order(graph).would_close_cycle(set(match.nodes)):
            return "the replacement would close a cycle"
        in_graph = isinstance(self.scope.container, ir.Graph)
        builder = Builder(self.scope.container.opset_imports, initializers_allowed=in_graph)
        try:
            new = self.build(rule, match, builder)
            if isinstance(new, str):
                builder.discard()
                return new
            check_replacement(builder, match, new, self.scope.container.opset_imports)
            application = self.announce(rule, match, builder, new)
            veto = self.context.before_rewrite(application)
        except OnnxPassesError as error:
            builder.discard()
            error.where = (
                error.where or f"rule '{rule.name}' ({rule.source}) at {match.root.name or match.root.op_type}"
            )
            raise
        except BaseException:
            builder.discard()
            raise
        if veto is not None:
            builder.discard()
            self.stopped = True
            return veto
        around = _around(match)
        change = splice(self.scope, builder, match, new, self.anchor(rule, match))
        self.applied += 1
        self.keep_order(rule, match, change)
        self.push_around([*change.added, *around])
        self.context.after_rewrite(application)
        if self.applied > self.budget:
            raise self.out_of_budget()
        return None

    def build(self, rule: Rule, match: Match, builder: Builder) -> list[ir.Value] | str:
        """Call the rewrite; a text is the reason why it declined."""
        try:
            new = rule.rewrite(builder, match.bindings)
        except MatchFailureError as failure:
            return failure.reason or "rewrite declined"
        except OnnxPassesError:
            raise
        except Exception as error:
            raise rule.error("rewrite", error, match.root) from error
        if new is None or new is False or isinstance(new, Refusal) or hasattr(new, "failure_nodes_and_values"):
            return reason_of(new, "rewrite declined")
        return list(cast(Iterable[ir.Value], new)) if isinstance(new, list | tuple) else [new]

    def announce(self, rule: Rule, match: Match, builder: Builder, new: Sequence[ir.Value]) -> Application:
        return Application(
            number=self.context.next_number(),
            step=self.context.record,
            rule=rule.name,
            source=rule.source,
            graph=match.root.graph or self.scope.container,
            root=match.root,
            matched=match.nodes,
            added=tuple(builder.nodes),
            replaced=tuple(zip(match.output_values, new, strict=True)),
            initializers=tuple(builder.initializers),
        )

    def order(self, graph: ir.Graph) -> Order:
        if graph not in self.orders:
            self.orders[graph] = Order(graph, self.owners)
        return self.orders[graph]

    def anchor(self, rule: Rule, match: Match) -> ir.Node:
        """Choose the matched node behind which all inputs of the replacement are ready."""
        graph = match.root.graph
        if not rule.has_many_outputs or graph is None:
            return match.root
        return max(match.nodes, key=self.order(graph).rank)

    def keep_order(self, rule: Rule, match: Match, change: Change) -> None:
        """Note what has to be sorted at the end, and what other rules need to know about new nodes."""
        graph = next((node.graph for node in change.added), None)
        if graph is None:
            return
        if rule.has_many_outputs or _uses_unbound(change.added, match):
            self.unsorted[graph] = None
        if graph in self.orders:
            self.orders[graph].add(change.added)
        if self.others is not None:
            for node in change.added:
                self.others.add(node)

    def push_around(self, nodes: Iterable[ir.Node]) -> None:
        """Queue nodes and all that a pattern rooted downstream could see them from."""
        level = [node for node in dict.fromkeys(nodes) if node.graph is not None]
        seen = set(level)
        for distance in range(self.reach):
            following: list[ir.Node] = []
            for node in level:
                if self.index.covers(node):
                    self.push(node)
                if distance + 1 < self.reach:
                    following.extend(self.downstream(node))
            level = [node for node in dict.fromkeys(following) if node not in seen]
            seen.update(level)

    def downstream(self, node: ir.Node) -> Iterable[ir.Node]:
        """Iterate over users, except of a value so widely used that no pattern could own it."""
        for output in node.outputs:
            uses = output.uses()
            if len(uses) <= self.widest:
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


def _uses_unbound(added: Sequence[ir.Node], match: Match) -> bool:
    """Tell whether new nodes use a value that the match did not bind: it may be computed later than the root."""
    known = {id(value) for value in match.bindings.values()}
    known.update(id(value) for node in match.nodes for value in (*node.inputs, *node.outputs))
    known.update(id(value) for node in added for value in node.outputs)
    return any(
        value is not None and id(value) not in known and value.producer() is not None
        for node in added
        for value in node.inputs
    )
