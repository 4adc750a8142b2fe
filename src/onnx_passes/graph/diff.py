"""Compare two models: added, removed and changed parts, regardless of names of nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.alignment import Alignment, pair_by_name
from onnx_passes.graph.changes import (
    ChangedInitializer,
    ChangedNode,
    changed_initializers,
    changed_nodes,
    interface_changes,
    opset_changes,
    source_changes,
)
from onnx_passes.graph.equality import Structure, compare
from onnx_passes.graph.hashing.content import Contents
from onnx_passes.graph.listing import call_text, constant_text, listing, results_text
from onnx_passes.graph.load import Source, load
from onnx_passes.graph.lockstep import FirstDifference
from onnx_passes.graph.wording import attribute_differences, count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, repr=False)
class ModelDiff(Displayed):
    """The changes from one model, graph or function to another."""

    added: tuple[ir.Node, ...] = ()
    removed: tuple[ir.Node, ...] = ()
    changed: tuple[ChangedNode, ...] = ()
    added_initializers: tuple[ir.Value, ...] = ()
    removed_initializers: tuple[ir.Value, ...] = ()
    changed_initializers: tuple[ChangedInitializer, ...] = ()
    interface: tuple[str, ...] = ()
    opsets: tuple[str, ...] = ()
    added_functions: tuple[str, ...] = ()
    removed_functions: tuple[str, ...] = ()
    functions: Mapping[str, ModelDiff] = field(default_factory=dict[str, "ModelDiff"])

    def __repr__(self) -> str:
        return f"<ModelDiff {self.summary()}>"

    def __str__(self) -> str:
        return self.to_text()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing has changed."""
        return self == ModelDiff()

    def summary(self) -> str:
        """Return the changes in one line: ``+3 −5 ~1 nodes``."""
        parts = [
            _counts(self.added, self.removed, self.changed, "nodes"),
            _counts(self.added_initializers, self.removed_initializers, self.changed_initializers, "initializers"),
            _counts(self.added_functions, self.removed_functions, self.functions, "functions"),
            count(self.interface, "interface change") if self.interface else "",
            count(self.opsets, "opset change") if self.opsets else "",
        ]
        return ", ".join(filter(None, parts)) or "no changes"

    def to_text(self) -> str:
        """Return the changes, a line for each."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from (f"~ {text}" for text in (*self.opsets, *self.interface))
        yield from (f"- {_node_text(node)}" for node in self.removed)
        yield from (f"+ {_node_text(node)}" for node in self.added)
        for changed in self.changed:
            yield f"~ {_node_text(changed.after)}: {'; '.join(change.text for change in changed.changes)}"
        yield from (f"- initializer {constant_text(value)}" for value in self.removed_initializers)
        yield from (f"+ initializer {constant_text(value)}" for value in self.added_initializers)
        yield from (f"~ initializer '{value.after.name}': {value.text}" for value in self.changed_initializers)
        yield from (f"- function {name}" for name in self.removed_functions)
        yield from (f"+ function {name}" for name in self.added_functions)
        for name, changes in self.functions.items():
            yield f"~ function {name}: {changes.summary()}"
            yield from (f"  {line}" for line in changes._lines())

    def to_json(self) -> dict[str, Any]:
        """Return the changes as plain data."""
        return {
            "nodes": {
                "added": [_node_json(node) for node in self.added],
                "removed": [_node_json(node) for node in self.removed],
                "changed": [
                    {
                        "before": _node_json(changed.before),
                        "after": _node_json(changed.after),
                        "changes": [{"aspect": c.aspect, "text": c.text} for c in changed.changes],
                    }
                    for changed in self.changed
                ],
            },
            "initializers": {
                "added": [constant_text(value) for value in self.added_initializers],
                "removed": [constant_text(value) for value in self.removed_initializers],
                "changed": [
                    {"before": value.before.name, "after": value.after.name, "change": value.text}
                    for value in self.changed_initializers
                ],
            },
            "interface": list(self.interface),
            "opsets": list(self.opsets),
            "functions": {
                "added": list(self.added_functions),
                "removed": list(self.removed_functions),
                "changed": {name: changes.to_json() for name, changes in self.functions.items()},
            },
        }


def diff(before: Structure | Source, after: Structure | Source) -> ModelDiff:
    """Return the changes from one model, graph or function to another; models may be given as any loadable source.

    Nodes are aligned by their operands and uses. Models of the same structure have no changes except, possibly, in
    shapes of the interface, unused imports and unused functions.
    """
    contents = Contents()
    a, b = _structure(before), _structure(after)
    if isinstance(a, ir.Function) and isinstance(b, ir.Function):
        return _function_changes(a, b, contents)
    if isinstance(a, ir.Function) or isinstance(b, ir.Function):
        raise UsageError("a function can only be compared with a function")
    changes = _graph_changes(_graph(a), _graph(b), contents, is_function=False)
    if not isinstance(a, ir.Model) or not isinstance(b, ir.Model):
        return changes
    functions = {
        _identifier(function): _function_changes(function, b.functions[identifier], contents)
        for identifier, function in a.functions.items()
        if identifier in b.functions
    }
    return replace(
        changes,
        added_functions=_without(b, a),
        removed_functions=_without(a, b),
        functions={name: change for name, change in functions.items() if not change.is_empty},
    )


def _structure(given: Structure | Source) -> Structure:
    return given if isinstance(given, ir.Graph | ir.Function) else load(given)


def _graph(structure: ir.Model | ir.Graph) -> ir.Graph:
    return structure.graph if isinstance(structure, ir.Model) else structure


def _identifier(function: ir.Function) -> str:
    return "::".join(filter(None, function.identifier()))


def _without(a: ir.Model, b: ir.Model) -> tuple[str, ...]:
    return tuple(_identifier(function) for key, function in a.functions.items() if key not in b.functions)


def _function_changes(a: ir.Function, b: ir.Function, contents: Contents) -> ModelDiff:
    changes = _graph_changes(a.graph, b.graph, contents, is_function=True)
    attributes = attribute_differences(a, b, contents, "→")
    texts = tuple(f"attribute {name} {text}" for name, text in attributes.items())
    return replace(changes, interface=(*changes.interface, *texts))


def _graph_changes(a: ir.Graph, b: ir.Graph, contents: Contents, *, is_function: bool) -> ModelDiff:
    outcome = compare(a, b, contents, names=not is_function)
    opsets = tuple(opset_changes(a, b))
    if not isinstance(outcome, FirstDifference):
        return ModelDiff(opsets=opsets, interface=() if is_function else _interface(a, b, contents))
    alignment = Alignment(a, b, contents)
    changes = ModelDiff(
        added=tuple(alignment.added_nodes),
        removed=tuple(alignment.removed_nodes),
        changed=tuple(changed_nodes(alignment, contents)),
        added_initializers=tuple(alignment.added_constants),
        removed_initializers=tuple(alignment.removed_constants),
        changed_initializers=tuple(changed_initializers(alignment, contents)),
        interface=(*_interface(a, b, contents), *source_changes(alignment)),
        opsets=opsets,
    )
    # Models that differ never have an empty diff, even if the alignment cannot describe the difference.
    return replace(changes, interface=(str(outcome),)) if changes.is_empty else changes


def _interface(a: ir.Graph, b: ir.Graph, contents: Contents) -> tuple[str, ...]:
    inputs = interface_changes("input", pair_by_name(a.inputs, b.inputs), contents, b.inputs)
    outputs = interface_changes("output", pair_by_name(a.outputs, b.outputs), contents, b.outputs)
    return (*inputs, *outputs)


def text_diff(
    a: Structure, b: Structure, name_a: str = "before", name_b: str = "after", contents: Contents | None = None
) -> str:
    """Return a unified diff of the two models, a line for each node, with large constants elided.

    Pass the same ``contents`` again to digest the constants of several versions of a model only once.
    """
    contents = contents or Contents()
    return unified_diff(listing(a, contents), listing(b, contents), name_a, name_b)


def _counts(added: Sized, removed: Sized, changed: Sized, noun: str) -> str:
    if not (added or removed or changed):
        return ""
    return f"+{len(added)} −{len(removed)} ~{len(changed)} {noun}"


def _node_text(node: ir.Node) -> str:
    comment = f"  # {node.name}" if node.name else ""
    return f"{call_text(node)} -> {results_text(node)}{comment}"


def _node_json(node: ir.Node) -> dict[str, Any]:
    return {
        "name": node.name or "",
        "domain": node.domain,
        "op_type": node.op_type,
        "inputs": [None if value is None else value.name for value in node.inputs],
        "outputs": [value.name for value in node.outputs],
    }


_CONTEXT = 3
# Ranges without a unique common line are compared line by line only up to this length, as that is quadratic.
_SMALL = 300


def unified_diff(a: Sequence[str], b: Sequence[str], name_a: str, name_b: str) -> str:
    """Return the changes from one listing to another as a unified diff; empty if there are none.

    Lines that are unique in both are matched first, so the cost stays linear for long listings.
    """
    changes = list(_changes(a, b))
    if not changes:
        return ""
    lines = [f"--- {name_a}", f"+++ {name_b}"]
    hunk: list[tuple[int, int, int, int]] = []
    for change in changes:
        if hunk and change[0] - hunk[-1][1] > 2 * _CONTEXT:
            lines.extend(_hunk(a, b, hunk))
            hunk = []
        hunk.append(change)
    lines.extend(_hunk(a, b, hunk))
    return "\n".join(lines) + "\n"


def _hunk(a: Sequence[str], b: Sequence[str], changes: list[tuple[int, int, int, int]]) -> Iterator[str]:
    before = min(_CONTEXT, changes[0][0])
    after = min(_CONTEXT, len(a) - changes[-1][1])
    start_a, end_a = changes[0][0] - before, changes[-1][1] + after
    start_b, end_b = changes[0][2] - before, changes[-1][3] + after
    yield f"@@ -{_range(start_a, end_a)} +{_range(start_b, end_b)} @@"
    position = start_a
    for first_a, last_a, first_b, last_b in changes:
        yield from (f" {line}" for line in a[position:first_a])
        yield from (f"-{line}" for line in a[first_a:last_a])
        yield from (f"+{line}" for line in b[first_b:last_b])
        position = last_a
    yield from (f" {line}" for line in a[position:end_a])


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + 1 if length else start}{'' if length == 1 else f',{length}'}"


def _changes(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges a[i:j] that became b[k:l] as (i, j, k, l), in order."""
    here_a = here_b = 0
    for line_a, line_b in [*_anchors(a, b), (len(a), len(b))]:
        yield from _stretch_changes(a, b, here_a, line_a, here_b, line_b)
        here_a, here_b = line_a + 1, line_b + 1


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines that both texts have exactly once, if they are in the same order."""
    counts_a, counts_b = Counter(a), Counter(b)
    places = {line: index for index, line in enumerate(b) if counts_b[line] == 1}
    pairs = [(index, places[line]) for index, line in enumerate(a) if counts_a[line] == 1 and line in places]
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        rank = bisect_left(ends, place)
        previous.append(last[rank - 1] if rank else -1)
        if rank == len(ends):
            ends.append(place)
            last.append(number)
        else:
            ends[rank], last[rank] = place, number
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _stretch_changes(
    a: Sequence[str], b: Sequence[str], start_a: int, end_a: int, start_b: int, end_b: int
) -> Iterator[tuple[int, int, int, int]]:
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
    if start_a == end_a and start_b == end_b:
        return
    if max(end_a - start_a, end_b - start_b) > _SMALL:
        yield start_a, end_a, start_b, end_b
        return
    matcher = SequenceMatcher(None, a[start_a:end_a], b[start_b:end_b], autojunk=False)
    for tag, i, j, k, last in matcher.get_opcodes():
        if tag != "equal":
            yield start_a + i, start_a + j, start_b + k, start_b + last
