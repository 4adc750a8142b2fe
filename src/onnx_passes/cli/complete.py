"""Completion of the command line from the index: passes, their options and values, operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import click
from click.shell_completion import CompletionItem

UNFINISHED = "part"
"""Type of a completion that is continued: no space follows."""


@dataclass(frozen=True)
class CursorPosition:
    """Position of the cursor in pipeline text: in the name of a pass, in an option, or in the value of an option."""

    kind: Literal["name", "option", "value"]
    start: int
    owner: str = ""
    option: str = ""


def place_of(text: str) -> CursorPosition:
    """Return the position at the end of unfinished pipeline text."""
    owner, option, start = "", "", 0
    kind: Literal["name", "option", "value"] = "name"
    for at, mark in enumerate(text):
        if mark not in "{}()=,[] \t\n":
            continue
        word = text[start:at]
        if kind == "name" and word:
            owner = word
        if mark == "{":
            kind = "option"
        elif mark == "}":
            kind = "name"
        elif mark == "=" and kind == "option":
            kind, option = "value", word.strip()
        elif mark == "," and kind == "value" and text[:at].count("[") == text[:at].count("]"):
            kind = "option"
        start = at + 1
    return CursorPosition(kind, start, owner, option)


def pass_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete pipeline text: the name of a pass or group, an option, or a value of an option."""
    place = place_of(incomplete)
    before, word = incomplete[: place.start], incomplete[place.start :]
    found = {"name": _names, "option": _options, "value": _values}[place.kind](place)
    return [
        CompletionItem(before + text, type=UNFINISHED if text.endswith("=") else "plain", help=help_ or None)
        for text, help_ in found
        if text.startswith(word)
    ]


def pass_or_operator(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a pass, a group, or an operator, whose name starts with a capital letter."""
    if not incomplete[:1].isupper():
        return pass_names(ctx, parameter, incomplete)
    from onnx_passes.ops.describe import operator_names

    return [CompletionItem(name) for name in operator_names() if name.startswith(incomplete)]


def model_or_pass(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete passes, and file names for the first word."""
    passes = pass_names(ctx, parameter, incomplete)
    given = ctx.params.get(parameter.name or "")
    return passes if given else [*passes, CompletionItem(incomplete, type="file")]


def models_and_passes(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete passes, and file names where models are allowed: first, or after leading passes."""
    from onnx_passes.cli.words import is_pass

    passes = pass_names(ctx, parameter, incomplete)
    given = ctx.params.get(parameter.name or "")
    return [*passes, CompletionItem(incomplete, type="file")] if not given or is_pass(str(given[0])) else passes


def tags(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a tag of passes."""
    from onnx_passes.core.registry import REGISTRY

    found = sorted({tag for entry in REGISTRY.entries() for tag in entry.tags})
    return [CompletionItem(tag) for tag in found if tag.startswith(incomplete)]


def _names(place: CursorPosition) -> Iterator[tuple[str, str]]:
    from onnx_passes.core.registry import REGISTRY

    summaries = {entry.name: entry.summary for entry in REGISTRY.entries()}
    yield from ((name, summaries.get(name, "")) for name in REGISTRY.names())


def _options(place: CursorPosition) -> Iterator[tuple[str, str]]:
    """List the options of a pass and, with a dot, those of its members."""
    from onnx_passes.core.errors import UnknownPassError
    from onnx_passes.core.members import members_of
    from onnx_passes.core.registry import REGISTRY

    try:
        found = REGISTRY.find(place.owner)
    except UnknownPassError:
        return
    if not found.is_group:
        yield from ((f"{option.name}=", option.help) for option in found.entries[0].options)
    for member in members_of(found, REGISTRY):
        yield from ((f"{member.name}.{option.name}=", option.help) for option in member.options)


def _values(place: CursorPosition) -> Iterator[tuple[str, str]]:
    """List the values of an option that is a choice."""
    from onnx_passes.core.errors import UnknownPassError
    from onnx_passes.core.naming import kebab
    from onnx_passes.core.registry import REGISTRY

    *members, option = place.option.split(".")
    try:
        found = REGISTRY.find(members[-1] if members else place.owner)
    except UnknownPassError:
        return
    for one in (one for entry in found.entries for one in entry.options if one.name == kebab(option)):
        choices = one.type.split(" | ")
        if len(choices) > 1:
            yield from ((choice, one.help) for choice in choices)
