"""Patterns as onnxscript builds them: the one place that knows how its pattern graphs look inside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, cast

from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]
from onnxscript.rewriter import pattern as onnxscript_pattern

from onnx_passes.core.errors import RegistrationError
from onnx_passes.graph.schemas import misspelt
from onnx_passes.rewrite.source import source_of

Var: TypeAlias = language.ValuePattern
"""A value of a pattern: a variable, or what a node of the pattern computes."""


class Op(Protocol):
    """The ``op`` of a pattern: ``op.Add(x, y)`` is the result of a node that is to be found."""

    def __getattr__(self, op_type: str, /) -> Callable[..., Any]:
        """Return what makes a node of an operator."""
        ...


_BUILDING = threading.Lock()
"""Operators between pattern variables go through a global of onnxscript: one pattern at a time."""


def build_pattern(function: Callable[..., Any], rule: str) -> language.GraphPattern:
    """Build the pattern graph with onnxscript's own constructor, reached through its public matcher hook."""
    built: list[language.GraphPattern] = []

    def keep(graph_pattern: language.GraphPattern) -> onnxscript_pattern.PatternMatcher:
        built.append(graph_pattern)
        return onnxscript_pattern.SimplePatternMatcher(graph_pattern)

    try:
        with _BUILDING:
            onnxscript_pattern.Pattern(function, matcher=keep)
    except Exception as error:
        raise RegistrationError(
            f"the pattern of rule '{rule}' cannot be built: {error}",
            where=source_of(function),
            hint="a pattern returns one value or a list of values built from its arguments",
        ) from error
    outputs = built[0].outputs
    if not built[0].output_nodes or any(not choices(value) and may_be_uncomputed(value) for value in outputs):
        raise RegistrationError(
            f"the pattern of rule '{rule}' returns something that it does not compute",
            where=source_of(function),
            hint="return op.Something(…)",
        )
    return built[0]


def choices(pattern: language.ValuePattern | None) -> Sequence[tuple[Any, language.ValuePattern]]:
    """List the alternatives of an ``OrValue`` with their tags; nothing for any other value."""
    match pattern:
        case language.BacktrackingOr():
            return list(zip(cast(Any, pattern)._tag_values, cast(Any, pattern)._values, strict=True))
        case language.OpIdDispatchOr():
            return list(cast(Any, pattern)._op_to_pattern.values())
        case _:
            return ()


def children(pattern: language.ValuePattern | None) -> Iterator[language.NodePattern]:
    """Iterate over the node patterns that may produce a value: several for an alternative."""
    if isinstance(pattern, language.NodeOutputPattern):
        yield pattern.producer()
    for _, choice in choices(pattern):
        yield from children(choice)


def may_be_uncomputed(pattern: language.ValuePattern | None) -> bool:
    """Tell whether a value may also be a variable, a constant or missing."""
    alternatives = choices(pattern)
    if alternatives:
        return any(may_be_uncomputed(choice) for _, choice in alternatives)
    return not isinstance(pattern, language.NodeOutputPattern)


def names(pattern: language.GraphPattern, nodes: Iterable[language.NodePattern]) -> tuple[str, ...]:
    """List the names that a match may bind: variables, values, attributes and tags."""
    nodes = tuple(nodes)
    found = [value.name for value in (*pattern.inputs, *pattern.outputs)]
    found.extend(attribute.name for node in nodes for attribute in node.attributes.values())
    for value in _values(nodes):
        found.extend((value.name, getattr(value, "tag_var", None)))
    return tuple(dict.fromkeys(name for name in found if name is not None))


def has_checks(nodes: Iterable[language.NodePattern]) -> bool:
    """Tell whether a node or value of a pattern comes with a check of its own."""
    nodes = tuple(nodes)
    return any(cast(Any, part).check_method is not None for part in (*nodes, *_values(nodes)))


def _values(nodes: Iterable[language.NodePattern]) -> Iterator[language.ValuePattern]:
    waiting = [value for node in nodes for value in (*node.outputs, *node.inputs)]
    while waiting:
        value = waiting.pop()
        if value is not None:
            yield value
            waiting.extend(choice for _, choice in choices(value))


def depths(roots: Sequence[language.NodePattern]) -> dict[language.NodePattern, int]:
    """Map each node pattern below the roots to the number of nodes on the longest way down from it."""
    found: dict[language.NodePattern, int] = {}

    def visit(node: language.NodePattern) -> int:
        if node not in found:
            found[node] = 1 + max((visit(child) for value in node.inputs for child in children(value)), default=0)
        return found[node]

    for root in roots:
        visit(root)
    return found


def refuse_misspelt(nodes: Iterable[language.NodePattern], rule: str, source: str) -> None:
    """Refuse a pattern with an operator that nobody has, and that looks like one of ONNX."""
    for operator in filter(None, map(operator_of, nodes)):
        hint = misspelt(*operator)
        if hint is not None:
            raise RegistrationError(
                f"the pattern of rule '{rule}' has an operator '{operator[1]}' that ONNX does not have",
                where=source,
                hint=hint,
            )


def operator_of(node: language.NodePattern) -> tuple[str, str] | None:
    """Return domain and type if the pattern names one operator, even for copies that lost their identifier."""
    op, domain = node.op, node.domain
    if isinstance(op, language.StringConstantPattern) and isinstance(domain, language.StringConstantPattern):
        return domain.value(), op.value()
    return None
