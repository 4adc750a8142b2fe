"""A rule: pattern, check and rewrite, compiled once and free of state.

A pattern may have several roots: the others are found from values that the first one bound.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.errors import OnnxPassesError, RegistrationError, RewriteError
from onnx_passes.rewrite.compile import Compiler, Continue, MatchNode
from onnx_passes.rewrite.forks import Forks, refuse_fork
from onnx_passes.rewrite.match import Bindings, Match, NodesByOperator, Partial, describe_node
from onnx_passes.rewrite.patterns import (
    AnyValue,
    ConstantPattern,
    GraphPattern,
    NodePattern,
    ResultPattern,
    Var,
    build_pattern,
    children,
    depths,
    has_checks,
    names,
    refuse_misspelt,
)
from onnx_passes.rewrite.refusal import Refusal, no, reason_of, refusal_of
from onnx_passes.rewrite.source import source_of


@dataclass(frozen=True)
class Link:
    """A value that the roots before this one bind, and the node patterns on the way up from it to this root."""

    root: NodePattern
    start: Var | None = None
    way: tuple[NodePattern, ...] = ()

    def candidates(self, state: Bindings) -> Iterable[ir.Node]:
        """List the nodes that may be this root: reached from the shared value, or else all of its operator."""
        value = None if self.start is None else bound_value(self.start, state)
        if value is None:
            return self._all(state)
        found = dict.fromkeys(value.consumers())
        for pattern in self.way[:-1]:
            found = {
                user: None
                for node in found
                if pattern.may_be(node.op_type)
                for output in node.outputs
                for user in output.consumers()
            }
        return [node for node in found if node.graph is state.graph]

    def _all(self, state: Bindings) -> Iterable[ir.Node]:
        operator = self.root.operator
        if operator is None or state.nodes_by_operator is None:
            return tuple(state.graph)
        return state.nodes_by_operator.get(state.graph, *operator)


def find_roots(pattern: GraphPattern) -> tuple[NodePattern, ...]:
    """List the nodes that no other output of the pattern depends on: matching starts there."""
    outputs = pattern.output_nodes
    return tuple(node for node in outputs if not any(node in _cone(other) for other in outputs if other is not node))


def order_roots(roots: Sequence[NodePattern], first: int) -> tuple[Link, ...]:
    """Order the other roots so that, where possible, each is reached from a value that earlier roots bind."""
    seen = _cone(roots[first])
    waiting = [root for i, root in enumerate(roots) if i != first]
    links: list[Link] = []
    while waiting:
        reached = [(root, _way(root, seen)) for root in waiting]
        root, way = next(((r, w) for r, w in reached if w is not None), (waiting[0], None))
        links.append(Link(root) if way is None else Link(root, *way))
        waiting.remove(root)
        seen |= _cone(root)
    return tuple(links)


def bound_value(pattern: Var, state: Bindings) -> ir.Value | None:
    """Return the value that a value pattern is bound to; None if it is not bound to a value."""
    if isinstance(pattern, ResultPattern):
        node = state.nodes.get(pattern.node)
        return None if node is None else node.outputs[pattern.index]
    bound = state.values.get(pattern) if pattern.name is None else state.bindings.get(pattern.name)
    return bound if isinstance(bound, ir.Value) else None


def _key(value: Var) -> object:
    return value if value.name is None else value.name


def _cone(root: NodePattern) -> set[object]:
    """Collect the node patterns, and the keys of the values, that matching a root is sure to bind."""
    found: set[object] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        found.update(_key(output) for output in node.outputs)
        for value in node.inputs:
            if value is not None and not isinstance(value, AnyValue | ConstantPattern):
                found.add(_key(value))
            if isinstance(value, ResultPattern):
                waiting.append(value.node)
    return found


def _way(root: NodePattern, seen: set[object]) -> tuple[Var, tuple[NodePattern, ...]] | None:
    """Find the shortest way from a value already bound up to a root."""
    level: dict[NodePattern, tuple[NodePattern, ...]] = {root: (root,)}
    while level:
        for node, way in level.items():
            for value in node.inputs:
                if value is not None and _key(value) in seen:
                    return value, way
        level = {
            child: (child, *way)
            for node, way in level.items()
            for value in node.inputs
            if isinstance(value, ResultPattern)
            for child in children(value)
        }
    return None


class Rule:
    """One rewrite: its condition (pattern, check) and its replacement (rewrite).

    ``check`` and ``rewrite`` get the bindings that they name; names that the match left unbound are ``None``. ``owner``
    is the pass whose claim applies if another pass applies the rule. ``constants`` names the values that the check
    requires to be constant, and ``since`` the required opset: the rule is skipped where these requirements fail.
    """

    def __init__(
        self,
        pattern: Callable[..., Any] | GraphPattern,
        rewrite: Callable[..., Any],
        check: Callable[..., Any] | None = None,
        *,
        name: str,
        commute: bool = True,
        forks: Forks = "exclusive",
        constants: Collection[str] = (),
        since: int = 0,
        source: str | None = None,
        setup: Callable[[], None] | None = None,
        cleanup: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.owner: Pass | None = None
        self.forks: Forks = forks
        self.commute = commute
        self.constants = frozenset(constants)
        self.since = since
        self.setup = setup
        self.cleanup = cleanup
        self.source = source or source_of(rewrite)
        self.pattern = pattern if isinstance(pattern, GraphPattern) else build_pattern(pattern, name)
        self.roots = find_roots(self.pattern)
        nodes = depths(self.roots)
        refuse_misspelt(nodes, name, self.source)
        self.operators: tuple[tuple[str, str] | None, ...] = tuple(root.operator for root in self.roots)
        self.has_many_roots = len(self.roots) > 1
        self.depth = max(nodes.values())
        self.size = len(nodes)
        bound = names(self.pattern, nodes)
        self._unbound: dict[str, Any] = dict.fromkeys(bound)
        self.rewrite = _Call(rewrite, "rewrite", bound, name)
        self.check = None if check is None else _Call(check, "check", bound, name)
        self._has_inner_checks = has_checks(nodes)
        self.has_many_outputs = len(self.pattern.outputs) > 1
        compiler = Compiler(commute=commute, constants=self.constants)
        self._plans = tuple(
            _Plan(
                compiler.node(root),
                tuple((link, compiler.node(link.root)) for link in order_roots(self.roots, i)),
            )
            for i, root in enumerate(self.roots)
        )

    def __repr__(self) -> str:
        return f"Rule({self.name!r}, {self.source})"

    def find(
        self,
        model: ir.Model,
        container: ir.Graph | ir.Function,
        node: ir.Node,
        role: int = 0,
        *,
        refused: Callable[[str], None],
        others: NodesByOperator | None = None,
        partial: Partial | None = None,
        thorough: bool = True,
    ) -> Match | None:
        """Match with ``node`` as the given root; report to ``refused`` why a structural match was refused.

        Unless ``thorough``, matches that are certain to be refused are skipped, which is faster.
        """
        assert node.graph is not None
        state = Bindings(node.graph, others, partial, thorough=thorough)
        found: list[Match] = []

        def accept() -> bool:
            answer = self._judge(state, model, container)
            if isinstance(answer, Match):
                found.append(answer)
                return True
            refused(answer.reason)
            if partial is not None:
                partial.matched, partial.reason, partial.at = self.size, answer.reason, answer.at
            return False

        plan = self._plans[role]
        plan.match_root(node, state, (lambda: _match_links(plan.links, 0, state, accept)) if plan.links else accept)
        return found[0] if found else None

    def _judge(self, state: Bindings, model: ir.Model, container: ir.Graph | ir.Function) -> Match | Refusal:
        """Turn a structural match into a match, unless a fork or a check speaks against it."""
        outputs: list[ir.Value] = []
        for value in self.pattern.outputs:
            bound = bound_value(value, state)
            if bound is None or bound.producer() not in state.taken:
                return no("an output of the pattern is not computed by the match", at=bound)
            outputs.append(bound)
        nodes = tuple(state.nodes.values())
        refusal = refuse_fork(self.forks, nodes, outputs, model.functions)
        if refusal is not None:
            return refusal
        root = state.nodes[self.roots[0]]
        match = Match(model, container, root, nodes, tuple(outputs), {**self._unbound, **state.bindings})
        try:
            refusal = self._refuse(match, state)
        except OnnxPassesError:
            raise
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise self.error("check", error, root) from error
            return no(refusal.reason or "check said no", refusal.at)
        return match if refusal is None else refusal

    def _refuse(self, match: Match, state: Bindings) -> Refusal | None:
        """Call the checks inside the pattern, then that of the rule."""
        inner = (*state.nodes.items(), *state.values.items()) if self._has_inner_checks else ()
        for pattern, item in inner:
            if pattern.check_method is not None:
                answer = pattern.check_method(match, item)
                if not answer:
                    what = pattern.op_type if isinstance(item, ir.Node) else "a value"
                    return no(reason_of(answer, f"check of {what} said no"), item)
        if self.check is not None:
            answer = self.check(match, match.bindings)
            if not answer:
                return no(reason_of(answer, "check said no"), getattr(answer, "at", None))
        return None

    def error(self, what: str, error: Exception, root: ir.Node) -> RewriteError:
        """Return an error with the rule, its method and the node."""
        return RewriteError(
            f"{what} of rule '{self.name}' ({self.source}) raised {type(error).__name__}: {error}",
            where=describe_node(root),
        )


@dataclass(frozen=True)
class _Plan:
    match_root: MatchNode
    links: tuple[tuple[Link, MatchNode], ...]


class _Call:
    """A method of a rule, given just the bindings that it names."""

    def __init__(self, function: Callable[..., Any], role: str, bound: tuple[str, ...], rule: str) -> None:
        self.function = function
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters[1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.names = tuple(p.name for p in named if p.name in bound)
        for parameter in named:
            if parameter.name not in bound and parameter.default is parameter.empty:
                raise RegistrationError(
                    f"{role} of rule '{rule}' takes '{parameter.name}', which the pattern does not bind",
                    where=source_of(function),
                    hint="the pattern binds " + (", ".join(sorted(bound)) or "nothing"),
                )

    def __call__(self, first: object, bindings: dict[str, Any]) -> Any:
        if self.takes_all:
            return self.function(first, **bindings)
        return self.function(first, **{name: bindings[name] for name in self.names})


def _match_links(links: Sequence[tuple[Link, MatchNode]], i: int, state: Bindings, accept: Continue) -> bool:
    if i == len(links):
        return accept()
    link, match_root = links[i]
    return any(
        match_root(node, state, lambda: _match_links(links, i + 1, state, accept)) for node in link.candidates(state)
    )
