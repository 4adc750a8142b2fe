"""A page for each pass, and index pages by group and by tag."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

import onnx_passes
from generators.evidence import evidence
from generators.examples import Example, Examples
from generators.markdown import code, escaped, fenced, prose, raw, table, toctree, write_page
from generators.pictures import before_after, is_visible
from onnx_passes import examples as shipped
from onnx_passes.core.registry import REGISTRY, Entry
from onnx_passes.graph.diff import unified_diff
from onnx_passes.graph.text import to_text

_SECTION = re.compile(r"^(Rewrites|Refuses|Exactness): *", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_KINDS = {
    "transformation": "Transformations change a model.",
    "sequence": "Sequences run other passes.",
    "annotation": "Annotations change no structure and no values, only types, shapes and metadata.",
    "analysis": "Analyses change nothing: they report, or end a run.",
}
_SHOWN = 3
"""Number of elements shown of a list in the finding of an analysis."""


def write_catalogue(folder: Path) -> list[str]:
    """Write all pages of passes to a folder, and return the names of those with an example."""
    entries = REGISTRY.entries()
    groups = {name: members for name, members in REGISTRY.groups().items() if len(members) > 1}
    examples = Examples()
    shown: list[str] = []
    for entry in entries:
        found = examples.of(entry)
        write_page(folder / f"{entry.name}.md", *page_of(entry, found, groups))
        if found:
            shown.append(entry.name)
    _write_index(folder, entries, groups)
    return shown


def page_of(entry: Entry, found: Sequence[Example], groups: Mapping[str, Sequence[Entry]]) -> Iterable[str]:
    """Yield the parts of the page of a pass."""
    yield f"# {entry.name}"
    summary, sections, rest = sections_of(entry.doc)
    yield prose(summary)
    yield from map(prose, rest)
    for title, text in sections.items():
        yield f"**{title}.** {prose(text)}"
    run = found[0].pipeline if found else entry.name
    yield fenced(f"onnx-passes -o out.onnx model.onnx {_quoted(run)}", "sh")
    yield from _examples(entry, found)
    if entry.laws:
        yield "## Laws"
        yield fenced("\n".join(map(_law, entry.laws)))
    if entry.options:
        yield "## Options"
        yield table(
            ("option", "type", "default", "meaning"),
            (
                (code(option.name), escaped(option.type), code(option.default) if option.default else "", option.help)
                for option in entry.options
            ),
        )
    yield "## Facts"
    yield table(("", ""), _facts(entry, groups))
    yield from evidence(entry)


def sections_of(doc: str) -> tuple[str, dict[str, str], list[str]]:
    """Split a docstring into its first line, the sections Rewrites, Refuses and Exactness, and other paragraphs."""
    head, *parts = _SECTION.split(doc)
    paragraphs = [" ".join(part.split()) for part in head.split("\n\n") if part.strip()]
    sections = {title: " ".join(text.split()) for title, text in zip(parts[::2], parts[1::2], strict=True)}
    return (paragraphs or ["(no documentation)"])[0], sections, paragraphs[1:]


def _law(text: str) -> str:
    """Write a law and its conditions on separate lines."""
    return re.sub(r" {3}(with|when) ", r"\n    \1 ", text)


def _quoted(pipeline: str) -> str:
    return pipeline if _NAME.fullmatch(pipeline) else f"'{pipeline}'"


def _facts(entry: Entry, groups: Mapping[str, Sequence[Entry]]) -> Iterable[tuple[str, str]]:
    flags = getattr(REGISTRY.load(entry), "fast_math", ())
    other = [group for group in entry.groups if group not in groups]
    facts = (
        ("Kind", [entry.kind]),
        ("Promises", [code(claim) for claim in entry.claims]),
        ("Fast-math flags", [code(flag) for flag in flags]),
        ("Groups", [f"[{group}](#group-{group})" for group in entry.groups if group in groups]),
        ("Tags", [f"[{tag}](#tag-{tag})" for tag in entry.tags]),
        ("Also known as", [code(name) for name in (*other, *entry.aliases)]),
        ("Class", [code(entry.class_name)]),
        ("Members", [_link(name, groups) for name in entry.members]),
        ("Needs", [_link(name, groups) for name in entry.needs]),
        ("Followed by", [_link(name, groups) for name in entry.followed_by]),
        ("Preserves", ["everything"] if entry.preserves == ("*",) else [_link(n, groups) for n in entry.preserves]),
        ("Defined in", [code(entry.module)]),
    )
    for label, values in facts:
        if values:
            yield label, ", ".join(values)


def _link(text: str, groups: Mapping[str, Sequence[Entry]]) -> str:
    """Link pipeline text to the page of its first pass or group."""
    match = _NAME.match(text)
    name = match.group() if match else ""
    if name in groups:
        return f"[{code(text)}](#group-{name})"
    try:
        found = REGISTRY.find(name)
    except onnx_passes.core.errors.UnknownPassError:
        return code(text)
    return f"[{code(text)}]({found.entries[0].name}.md)"


def _examples(entry: Entry, found: Sequence[Example]) -> Iterable[str]:
    if entry.kind == "analysis":
        yield from _finding(entry)
        return
    for example in found:
        if example.rule:
            yield f"Rule {code(example.rule)}:"
        elif example.pipeline != entry.name:
            yield f"Example of {code(example.pipeline)}:"
        if is_visible(example):
            yield raw(before_after(example))
        else:
            yield fenced(_text_diff(example), "diff")


def _text_diff(example: Example) -> str:
    before, after = (to_text(ir.to_proto(model))[0].splitlines() for model in (example.before, example.after))
    return unified_diff(before, after, "before", "after")


def _finding(entry: Entry) -> Iterable[str]:
    """Show the finding of an analysis on an example model."""
    model = onnx_passes.apply(shipped.path("digits-mlp"), "shape-inference", verify=False).model
    step = onnx_passes.apply(model, entry.name, verify=entry.name == "verify").record.steps[-1]
    data = step.to_json()
    said = {key: _short(data[key]) for key in ("result", "notes") if key in data}
    if said:
        yield f"Finding on the example {code('digits-mlp')}, shortened:"
        yield fenced(json.dumps(said, indent=1, ensure_ascii=False), "json")


def _short(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _short(data[key]) for key in list(data)[: 4 * _SHOWN]}
    if isinstance(data, list):
        return [*map(_short, data[:_SHOWN]), *(["…"] if len(data) > _SHOWN else [])]
    return data


def _write_index(folder: Path, entries: Sequence[Entry], groups: Mapping[str, Sequence[Entry]]) -> None:
    kinds = []
    for kind, about in _KINDS.items():
        kinds += [f"## {kind.capitalize()}", about, _list(entry for entry in entries if entry.kind == kind)]
    write_page(
        folder / "index.md",
        "# Passes",
        f"All {len(entries)} passes, [by group](groups.md) or [by tag](tags.md). In a terminal "
        "`onnx-passes list` shows them, and `onnx-passes explain NAME` shows one.",
        *kinds,
        toctree(["groups", "tags", *(entry.name for entry in entries)]),
    )
    parts = []
    for name, members in sorted(groups.items()):
        parts += [f"(group-{name})=\n## {name}", _list(members)]
    write_page(
        folder / "groups.md",
        "# Groups",
        "A group runs its members in this order.",
        *parts,
    )
    parts = []
    for tag in sorted({tag for entry in entries for tag in entry.tags}):
        parts += [f"(tag-{tag})=\n## {tag}", _list(entry for entry in entries if tag in entry.tags)]
    write_page(folder / "tags.md", "# Tags", f"{code('onnx-passes list --tag TAG')} lists them as well.", *parts)


def _list(entries: Iterable[Entry]) -> str:
    return "\n".join(f"- [{code(entry.name)}]({entry.name}.md): {prose(entry.summary)}" for entry in entries)
