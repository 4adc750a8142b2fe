"""Where a pass would apply to a model, and where it nearly does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from onnx_passes.core.compose import PassLike
from onnx_passes.core.naming import kebab
from onnx_passes.debug.attempts import Attempt
from onnx_passes.debug.why_not import RuleReport, why_not
from onnx_passes.rewrite.match import Match
from onnx_passes.session.finding import Matches, Miss, containers

_MISSES = 5
"""Maximum number of misses kept per rule, those that matched furthest."""


def matches_of(model: ir.Model, what: PassLike) -> Matches:
    """Try the rules of a pass at every node without changes, on a copy prepared by the required passes."""
    answer = why_not(model, what, top=_all_nodes(model))
    here = {
        value.name: node for container in containers(model) for node in container.all_nodes() for value in node.outputs
    }
    found, missed, more = list[Match](), list[Miss](), 0
    for report in answer.rules:
        found += [_match(model, attempt, here) for attempt in report.attempts if attempt.applies]
        misses = [attempt for attempt in report.attempts if attempt.stops and _is_near(attempt)]
        more += len(misses[_MISSES:])
        missed += [_miss(report, attempt, here) for attempt in misses[:_MISSES]]
    order = {node: number for number, node in enumerate(here.values())}
    found.sort(key=lambda match: order.get(match.root, len(order)))
    return Matches(what if isinstance(what, str) else _name(what), model, tuple(found), tuple(missed), more)


def _all_nodes(model: ir.Model) -> int:
    return sum(1 for container in containers(model) for _ in container.all_nodes()) + 1


def _name(what: object) -> str:
    if isinstance(what, type):
        return getattr(what, "text_name", "") or kebab(what.__name__)
    return getattr(what, "name", None) or str(what)


def _is_near(attempt: Attempt) -> bool:
    """Return whether an attempt matched more than its root."""
    return attempt.complete or len(attempt.matched) > 1


def _match(model: ir.Model, attempt: Attempt, here: dict[str | None, ir.Node]) -> Match:
    """Return the match on the nodes of the model itself, found by name."""
    nodes = tuple(_own(attempt.nodes, here))
    root = nodes[0]
    graph = root.graph if root.graph is not None else model.graph
    return Match(model, graph, root, nodes, tuple(root.outputs), dict(attempt.bindings))


def _miss(report: RuleReport, attempt: Attempt, here: dict[str | None, ir.Node]) -> Miss:
    progress = "" if attempt.complete else f"{len(attempt.matched)} of {attempt.size} nodes matched, but "
    reasons = tuple(str(stop) for stop in attempt.stops)
    return Miss(report.rule, attempt.node, progress, reasons, tuple(_own(attempt.nodes, here)))


def _own(nodes: Sequence[ir.Node], here: dict[str | None, ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        yield here.get(node.outputs[0].name if node.outputs else None, node)
