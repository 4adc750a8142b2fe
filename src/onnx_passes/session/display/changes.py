"""Pages of differences and search results."""

from __future__ import annotations

from onnx_passes.graph.diff import ModelDiff
from onnx_passes.rewrite.match import Match, describe_node
from onnx_passes.session.display.html import Html, code, element, folded, joined, lines, strong, table, title
from onnx_passes.session.display.pictures import picture_of_diff, picture_of_matches
from onnx_passes.session.finding import Matches, binding_text, bindings_of

_FEW = 16
"""So many lines are shown at once, the others are folded away."""
_MANY = 120
"""More lines or matches than this are only counted."""
_KINDS = {"-": "removed", "+": "added", "~": "changed"}


def diff_page(diff: ModelDiff) -> Html:
    """Show the changes, line by line, and the changed neighbourhood."""
    listed = [(_KINDS.get(line.strip()[:1], ""), line) for line in diff.to_text().splitlines()]
    parts: list[object] = [title(strong(diff.summary())), picture_of_diff(diff), lines(listed[:_FEW])]
    if len(listed) > _FEW:
        rest = lines(listed[_FEW:_MANY])
        more = f"{len(listed) - _FEW} more lines"
        parts.append(folded(more, rest, _uncounted(len(listed))))
    return joined(parts)


def matches_page(matches: Matches) -> Html:
    """Show the matches, and where a pass nearly applied."""
    rows = [(number, *_row(match)) for number, match in enumerate(matches.found)]
    bound = any(bindings_of(match) for match in matches.found)
    rows = rows if bound else [row[:2] for row in rows]
    missed = [(code(miss.node), miss.rule, f"{miss.progress}{'; '.join(miss.reasons)}") for miss in matches.missed]
    header = ("", "nodes", "where")[: 3 if bound else 2]
    parts: list[object] = [title(strong(matches.summary())), picture_of_matches(matches)]
    if rows:
        parts.append(table(header, rows[:_FEW], numbers=(0,)))
    if len(rows) > _FEW:
        rest = table(header, rows[_FEW:_MANY], numbers=(0,))
        parts.append(folded(f"{len(rows) - _FEW} more matches", rest, _uncounted(len(rows))))
    if missed:
        near = table(("nearly at", "rule", "but"), missed[:_MANY])
        parts.append(folded(matches.near_misses(), near))
    return joined(parts)


def _uncounted(number: int) -> str:
    return f"… and {number - _MANY} more" if number > _MANY else ""


def match_page(match: Match) -> Html:
    """Show one match."""
    return table(("nodes", "where"), [_row(match)])


def _row(match: Match) -> tuple[object, object]:
    bound = ", ".join(f"{name} = {binding_text(value)}" for name, value in bindings_of(match).items())
    return joined(element("div", code(describe_node(node))) for node in match.nodes), code(bound)
