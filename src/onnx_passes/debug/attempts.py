"""Attempts to match a rule at a node: the matched part of the pattern, and the reasons for stopping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_passes.core.base import Refused
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant_node, tensor_of_constant_node
from onnx_passes.graph.names import Container
from onnx_passes.rewrite.failures import pattern_text
from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.match import Match, NodesByOperator, Partial, describe_node
from onnx_passes.rewrite.nesting import Nesting
from onnx_passes.rewrite.replacement import prepare
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.scope import Scope


@dataclass(frozen=True)
class Stop:
    """Reason why an attempt stopped, and its place if the reason does not name it."""

    reason: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.reason}{self.place}"


@dataclass(frozen=True)
class Attempt:
    """Attempt to match a rule: its first node, the matched part of the pattern, and the reasons why it stopped.

    Hand-written passes have no pattern: its size is 0. ``nodes`` and ``bindings`` are those of the copy of the model on
    which the attempt was made.
    """

    node: str
    size: int
    matched: tuple[tuple[str, str], ...]
    stops: tuple[Stop, ...] = ()
    complete: bool = False
    nodes: tuple[ir.Node, ...] = field(default=(), repr=False, compare=False)
    bindings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @property
    def applies(self) -> bool:
        """Return whether the rule applies."""
        return not self.stops

    @property
    def progress(self) -> tuple[bool, bool, int]:
        """Return a key that compares how far attempts matched."""
        return self.applies, self.complete, len(self.matched)

    def lines(self) -> list[str]:
        """Return a description, with the parts of the pattern indented."""
        if not self.size and self.stops:
            return [f"{self.node}: {'; '.join(map(str, self.stops))}"]
        parts = [f"  {pattern} is {node}" for pattern, node in self.matched]
        if self.applies:
            return [f"{self.node}: it applies here", *parts]
        how_far = "the whole pattern" if self.complete else f"{len(self.matched)} of {self.size} nodes"
        stops = [f"  {'or' if number else 'but'} {stop}" for number, stop in enumerate(self.stops)]
        return [f"{self.node}: {how_far} matched", *parts, *stops]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "node": self.node,
            "applies": self.applies,
            "complete": self.complete,
            "matched": [{"pattern": pattern, "node": node} for pattern, node in self.matched],
            "pattern_nodes": self.size,
            "reasons": list(map(str, self.stops)),
        }


def refused_attempt(refused: Refused) -> Attempt:
    """Return the attempt for a refusal of a hand-written pass."""
    node = "the model" if refused.node is None else describe_node(refused.node)
    nodes = () if refused.node is None else (refused.node,)
    return Attempt(node, 0, (), (_stop(refused.reason, refused.at),), complete=True, nodes=nodes)


class TrialGraph:
    """Graph with its subgraphs, or a function, in which rules are tried without changing anything."""

    def __init__(self, model: ir.Model, container: Container) -> None:
        self._scope = Scope(model, container)
        self._nesting = Nesting(container)
        self._others = NodesByOperator()
        self._nodes = list(container.all_nodes())
        for node in self._nodes:
            # Information that the driver collects about a node before it tries rules.
            if is_constant_node(node) and node.outputs[0].const_value is None:
                node.outputs[0].const_value = tensor_of_constant_node(node)
            self._nesting.enter(node)
            self._others.add(node)

    def attempts(self, rule: Rule) -> Iterator[Attempt]:
        """Try a rule at every node that can be the root of its pattern."""
        index = RuleIndex([rule])
        for node in self._nodes:
            if index.covers(node):
                yield self._best(rule, node)

    def attempts_at(self, rule: Rule, node: ir.Node) -> Iterator[Attempt]:
        """Try a rule at one node; if it cannot be the root of the pattern, also at roots that can have it inside."""
        if not self._nesting.holds(node):
            return
        found = self._best(rule, node)
        if found.matched or found.applies:
            yield found
            return
        name, index = describe_node(node), RuleIndex([rule])
        around = [self._best(rule, other) for other in _downstream(node, rule.depth) if index.covers(other)]
        inside = [attempt for attempt in around if any(name == matched for _, matched in attempt.matched)]
        yield from inside or [found]

    def _best(self, rule: Rule, node: ir.Node) -> Attempt:
        """Try a node as each root of a pattern with several, and return the best attempt."""
        return max((self._try(rule, node, role) for role in range(len(rule.roots))), key=lambda found: found.progress)

    def _try(self, rule: Rule, node: ir.Node, role: int) -> Attempt:
        partial = Partial()
        refusals: list[str] = []
        complete: list[tuple[tuple[Any, ir.Node], ...]] = []

        def refused(reason: str) -> None:
            refusals.append(reason)
            complete.append(partial.found())

        name = describe_node(node)
        try:
            match = rule.find(
                self._scope.model,
                self._scope.container,
                node,
                role,
                refused=refused,
                others=self._others,
                partial=partial,
            )
            if match is not None:
                declined = self._declined(rule, match)
                found = partial.found()
                return Attempt(name, rule.size, _pairs(found), declined, True, match.nodes, match.bindings)
        except OnnxPassesError as error:
            return Attempt(name, rule.size, _pairs(partial.found()), (Stop(f"it fails: {error}"),), True, (node,))
        finally:
            partial.state = None
        if complete:
            place = _place(partial.at, complete[-1])
            stops = tuple(Stop(reason, place if reason == partial.reason else "") for reason in dict.fromkeys(refusals))
            return Attempt(name, rule.size, _pairs(complete[0]), stops, True, _nodes(complete[0]))
        failures = tuple(dict.fromkeys(_stop(reason, at) for reason, at in partial.failures))
        return Attempt(name, rule.size, _pairs(partial.nodes), failures, nodes=_nodes(partial.nodes) or (node,))

    def _declined(self, rule: Rule, match: Match) -> tuple[Stop, ...]:
        """Build the replacement to find out whether the rewrite declines, and discard it."""
        container = self._scope.container
        builder = Builder(
            container.opset_imports,
            initializers_allowed=isinstance(container, ir.Graph),
            graphs_of_model=self._nesting.graphs,
        )
        try:
            prepared = prepare(rule, match, builder, self._scope, self._nesting)
            return (Stop(prepared),) if isinstance(prepared, str) else ()
        finally:
            builder.discard()


def _downstream(node: ir.Node, steps: int) -> list[ir.Node]:
    """List the nodes that use a node, directly or through at most ``steps`` others."""
    level, seen = [node], {node: None}
    for _ in range(steps - 1):
        users = dict.fromkeys(use.node for one in level for value in one.outputs for use in value.uses())
        level = [user for user in users if user not in seen]
        seen.update(dict.fromkeys(level))
    del seen[node]
    return list(seen)


def _pairs(found: tuple[tuple[Any, ir.Node], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((pattern_text(pattern), describe_node(node)) for pattern, node in found)


def _nodes(found: tuple[tuple[Any, ir.Node], ...]) -> tuple[ir.Node, ...]:
    return tuple(node for _, node in found)


def _stop(reason: str, at: ir.Value | ir.Node | None) -> Stop:
    """Add the place to a reason that does not name it."""
    if isinstance(at, ir.Node):
        name = describe_node(at)
        return Stop(reason, name.removeprefix(at.op_type) if reason.endswith(at.op_type) else f": {name}")
    return Stop(reason, "" if at is None or not at.name or f"'{at.name}'" in reason else f": '{at.name}'")


def _place(at: ir.Value | ir.Node | None, nodes: tuple[tuple[Any, ir.Node], ...]) -> str:
    """Describe where a check refused and, for a value inside the match, its uses outside."""
    if at is None:
        return ""
    if isinstance(at, ir.Node):
        return f": {describe_node(at)}"
    inside = {node for _, node in nodes}
    outside = dict.fromkeys(describe_node(use.node) for use in at.uses() if use.node not in inside)
    used = f", used by {', '.join(outside)}" if outside and at.producer() in inside else ""
    return f": '{at.name}'{used}"
