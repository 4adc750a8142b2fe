"""A rule: pattern, check and rewrite, compiled once and free of state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]
from onnxscript.rewriter import pattern as onnxscript_pattern
from onnxscript.rewriter._basics import MatchFailureError  # pyright: ignore[reportPrivateUsage]

from onnx_passes.core.errors import OnnxPassesError, RegistrationError, RewriteError
from onnx_passes.rewrite.compile import Compiler, Continue, children
from onnx_passes.rewrite.match import Match, NodesByOperator, Partial, State, describe_node
from onnx_passes.rewrite.refusal import Refusal, no, reason_of
from onnx_passes.rewrite.roots import Link, order_roots
from onnx_passes.rewrite.traits import is_cheap

Forks = Literal["exclusive", "duplicate", "cheap"]
"""What to do when a value inside the match is used outside of it: refuse; compute it twice; only if cheap."""


class Rule:
    """One rewrite: where it applies (pattern, check) and what it puts there (rewrite)."""

    def __init__(
        self,
        pattern: Callable[..., Any] | language.GraphPattern,
        rewrite: Callable[..., Any],
        check: Callable[..., Any] | None = None,
        *,
        name: str,
        commute: bool = True,
        forks: Forks = "exclusive",
        source: str | None = None,
        setup: Callable[[], None] | None = None,
        cleanup: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.forks: Forks = forks
        self.commute = commute
        self.setup = setup
        self.cleanup = cleanup
        self.source = source or source_of(rewrite)
        self.pattern = _graph_pattern(pattern, name)
        self.rewrite = _Call(rewrite, "rewrite", self.pattern, name)
        self.check = None if check is None else _Call(check, "check", self.pattern, name)
        compiler = Compiler(commute=commute)
        self.roots = self.pattern.output_nodes
        self.plans = tuple(
            _Plan(
                compiler.node(root),
                tuple((link, compiler.node(link.root)) for link in order_roots(self.roots, i)),
            )
            for i, root in enumerate(self.roots)
        )
        self.depth = max(_depth(root) for root in self.roots)
        self.size = len(list(self.pattern))
        self.has_many_outputs = len(self.pattern.outputs) > 1 or len(self.roots) > 1

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
    ) -> Match | None:
        """Match with ``node`` as the given root; tells ``refused`` why a structural match was turned down."""
        assert node.graph is not None
        state = State(node.graph, others)
        state.best = partial
        found: list[Match] = []

        def accept() -> bool:
            match = self._complete(state, model, container, node)
            answer: Any = match if isinstance(match, Refusal) else self._answer(match, state)
            if answer:
                found.append(match)  # pyright: ignore[reportArgumentType]
                return True
            reason = reason_of(answer, "check said no")
            refused(reason)
            if partial is not None:
                partial.matched, partial.reason = self.size, reason
                partial.at = getattr(answer, "at", None)
            return False

        plan = self.plans[role]
        plan.match_root(node, state, lambda: _match_links(plan.links, 0, state, accept))
        return found[0] if found else None

    def _complete(
        self, state: State, model: ir.Model, container: ir.Graph | ir.Function, node: ir.Node
    ) -> Match | Refusal:
        outputs: list[ir.Value] = []
        for value in self.pattern.outputs:
            bound = _output(value, state)
            if bound is None:
                return no("an output of the pattern is not bound")
            outputs.append(bound)
        nodes = tuple(state.nodes.values())
        bindings = {**{v.name: None for v in self.pattern.inputs if v.name is not None}, **state.bindings}
        refusal = self._refuse_fork(nodes, outputs)
        return refusal or Match(model, container, node, nodes, tuple(outputs), bindings)

    def _refuse_fork(self, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> Refusal | None:
        if self.forks == "duplicate":
            return None
        inside, replaced = set(nodes), set(outputs)
        for node in nodes:
            for output in node.outputs:
                if output in replaced:
                    continue
                if not output.is_graph_output() and all(use.node in inside for use in output.uses()):
                    continue
                if self.forks == "exclusive" or not is_cheap(node):
                    what = "a graph output" if output.is_graph_output() else "used elsewhere"
                    return no(f"a value inside the match is {what}", at=output)
        return None

    def _answer(self, match: Match, state: State) -> Any:
        try:
            for pattern, node in state.nodes.items():
                if pattern.check_method is not None:
                    answer = pattern.check_method(match, node)
                    if not answer:
                        return no(reason_of(answer, f"check of {pattern.op_type} said no"), node)
            for pattern, value in state.values.items():
                if pattern.check_method is not None:
                    answer = pattern.check_method(match, value)
                    if not answer:
                        return no(reason_of(answer, "check of a value said no"), value)
            return True if self.check is None else self.check(match, match.bindings)
        except MatchFailureError as failure:
            return no(failure.reason or "check said no")
        except OnnxPassesError:
            raise
        except Exception as error:
            raise self.error("check", error, match.root) from error

    def error(self, what: str, error: Exception, root: ir.Node) -> RewriteError:
        """Say which rule failed, in which method, and at which node."""
        return RewriteError(
            f"{what} of rule '{self.name}' ({self.source}) raised {type(error).__name__}: {error}",
            where=describe_node(root),
        )


@dataclass(frozen=True)
class _Plan:
    match_root: Callable[[ir.Node, State, Continue], bool]
    links: tuple[tuple[Link, Callable[[ir.Node, State, Continue], bool]], ...]


class _Call:
    """A method of a rule, given just the bindings that it names."""

    def __init__(self, function: Callable[..., Any], role: str, pattern: language.GraphPattern, rule: str) -> None:
        self.function = function
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.names = tuple(p.name for p in parameters[1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        bound = _names(pattern)
        for parameter in parameters[1:]:
            unknown = parameter.name in self.names and parameter.name not in bound
            if unknown and parameter.default is parameter.empty:
                raise RegistrationError(
                    f"{role} of rule '{rule}' takes '{parameter.name}', which the pattern does not bind",
                    where=source_of(function),
                    hint="the pattern binds " + (", ".join(sorted(bound)) or "nothing"),
                )

    def __call__(self, first: object, bindings: dict[str, Any]) -> Any:
        if self.takes_all:
            return self.function(first, **bindings)
        return self.function(first, **{name: bindings[name] for name in self.names if name in bindings})


def _match_links(
    links: Sequence[tuple[Link, Callable[[ir.Node, State, Continue], bool]]],
    i: int,
    state: State,
    accept: Continue,
) -> bool:
    if i == len(links):
        return accept()
    link, match_root = links[i]
    return any(
        match_root(node, state, lambda: _match_links(links, i + 1, state, accept)) for node in link.candidates(state)
    )


def _graph_pattern(pattern: Callable[..., Any] | language.GraphPattern, rule: str) -> language.GraphPattern:
    """Build the pattern graph with onnxscript's own constructor, reached through its public matcher hook."""
    if isinstance(pattern, language.GraphPattern):
        return pattern
    built: list[language.GraphPattern] = []

    def keep(graph_pattern: language.GraphPattern) -> onnxscript_pattern.PatternMatcher:
        built.append(graph_pattern)
        return onnxscript_pattern.SimplePatternMatcher(graph_pattern)

    try:
        onnxscript_pattern.Pattern(pattern, matcher=keep)
    except Exception as error:
        raise RegistrationError(
            f"the pattern of rule '{rule}' cannot be built: {error}",
            where=source_of(pattern),
            hint="a pattern returns one value or a list of values built from its arguments",
        ) from error
    if not built[0].output_nodes:
        raise RegistrationError(
            f"the pattern of rule '{rule}' matches no node",
            where=source_of(pattern),
            hint="return op.Something(…)",
        )
    return built[0]


def _names(pattern: language.GraphPattern) -> set[str]:
    names = {value.name for value in pattern.inputs if value.name is not None}
    for node in pattern:
        names |= {output.name for output in node.outputs if output.name is not None}
        names |= {attribute.name for attribute in node.attributes.values() if attribute.name is not None}
        for value in node.inputs:
            if value is not None:
                names |= {name for name in (value.name, getattr(value, "tag_var", None)) if name is not None}
    return names


def _depth(node: language.NodePattern) -> int:
    return 1 + max((_depth(child) for value in node.inputs for child in children(value)), default=0)


def _output(pattern: language.ValuePattern, state: State) -> ir.Value | None:
    if isinstance(pattern, language.NodeOutputPattern):
        node = state.nodes.get(pattern.producer())
        return None if node is None else node.outputs[pattern.output_index]
    bound = state.bindings.get(pattern.name) if pattern.name is not None else state.values.get(pattern)
    return bound if isinstance(bound, ir.Value) else None


def source_of(function: Callable[..., Any]) -> str:
    """Name file and line of a function."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "built in"
