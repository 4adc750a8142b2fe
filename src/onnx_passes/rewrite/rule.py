"""A rule: pattern, check and rewrite, compiled once and free of state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]
from onnxscript.rewriter._basics import MatchFailureError  # pyright: ignore[reportPrivateUsage]

from onnx_passes.core.base import Pass
from onnx_passes.core.errors import OnnxPassesError, RegistrationError, RewriteError
from onnx_passes.rewrite.compile import Compiler, Continue, MatchNode
from onnx_passes.rewrite.forks import Forks, refuse_fork
from onnx_passes.rewrite.match import Match, NodesByOperator, Partial, State, describe_node
from onnx_passes.rewrite.patterns import build_pattern, depths, has_checks, names, refuse_misspelt
from onnx_passes.rewrite.refusal import Refusal, no, reason_of
from onnx_passes.rewrite.roots import Link, bound_value, find_roots, order_roots
from onnx_passes.rewrite.source import source_of


class Rule:
    """One rewrite: where it applies (pattern, check) and what it puts there (rewrite).

    ``check`` and ``rewrite`` get the bindings that they name; what the match left unbound is ``None``. ``owner`` is the
    pass whose claim the rule is held to when another one applies it. ``constants`` names what the check only accepts
    if it is constant, and ``since`` the opset that it asks for: the rule is not tried where that cannot be.
    """

    def __init__(
        self,
        pattern: Callable[..., Any] | language.GraphPattern,
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
        self.pattern = pattern if isinstance(pattern, language.GraphPattern) else build_pattern(pattern, name)
        self.roots = find_roots(self.pattern)
        # The list that the pattern keeps of its nodes misses those of other builders than its own.
        nodes = depths(self.roots)
        refuse_misspelt(nodes, name, self.source)
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
        """Match with ``node`` as the given root; tells ``refused`` why a structural match was turned down.

        Where nobody needs all reasons, not being ``thorough`` is faster: what is sure to be refused is not matched.
        """
        assert node.graph is not None
        state = State(node.graph, others, partial, thorough=thorough)
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

    def _judge(self, state: State, model: ir.Model, container: ir.Graph | ir.Function) -> Match | Refusal:
        """Turn a structural match into a match, unless a fork or a check speaks against it."""
        outputs: list[ir.Value] = []
        for value in self.pattern.outputs:
            bound = bound_value(value, state)
            if bound is None or bound.producer() not in state.taken:
                return no("an output of the pattern is not computed by the match", at=bound)
            outputs.append(bound)
        nodes = tuple(state.nodes.values())
        refusal = refuse_fork(self.forks, nodes, outputs)
        if refusal is not None:
            return refusal
        root = state.nodes[self.roots[0]]
        match = Match(model, container, root, nodes, tuple(outputs), {**self._unbound, **state.bindings})
        try:
            refusal = self._refuse(match, state)
        except MatchFailureError as failure:
            return no(failure.reason or "check said no", next(iter(failure.failure_sources), None))
        except OnnxPassesError:
            raise
        except Exception as error:
            raise self.error("check", error, root) from error
        return match if refusal is None else refusal

    def _refuse(self, match: Match, state: State) -> Refusal | None:
        """Ask the checks inside the pattern, then that of the rule."""
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
        """Say which rule failed, in which method, and at which node."""
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


def _match_links(links: Sequence[tuple[Link, MatchNode]], i: int, state: State, accept: Continue) -> bool:
    if i == len(links):
        return accept()
    link, match_root = links[i]
    return any(
        match_root(node, state, lambda: _match_links(links, i + 1, state, accept)) for node in link.candidates(state)
    )
