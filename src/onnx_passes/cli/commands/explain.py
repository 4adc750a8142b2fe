"""``onnx-passes explain``: what a pass does, refuses and promises."""

from __future__ import annotations

import json

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import import_option, json_option
from onnx_passes.core.registry import REGISTRY, Entry, Found


@click.command("explain", short_help="Explain a pass: what it rewrites, refuses and promises.")
@click.argument("names", nargs=-1, required=True, shell_complete=pass_names)
@json_option
@import_option
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Explain passes and groups: what they rewrite, refuse and promise, and their options."""
    found = [REGISTRY.find(name) for name in names]
    if as_json:
        click.echo(json.dumps([entry.to_json() for one in found for entry in one.entries], indent=2))
        return
    click.echo("\n\n".join(_explain(one) for one in found))


def _explain(found: Found) -> str:
    if found.is_group:
        members = "\n".join(f"  {entry.name}: {entry.summary}" for entry in found.entries)
        return f"{found.name} (group)\n\nRuns its members in this order:\n{members}"
    return _explain_entry(found.entries[0], found)


def _explain_entry(entry: Entry, found: Found) -> str:
    title = f"{entry.name} ({entry.kind})"
    if found.preset:
        title = f"{found.name} = {entry.name}{{{found.preset}}} ({entry.kind})"
    parts = [title, entry.doc or "(no documentation)"]
    if entry.options:
        parts.append("Options:\n" + "\n".join(_option_line(o.name, o.type, o.default, o.help) for o in entry.options))
    facts = [
        ("Members", entry.members),
        ("Needs", entry.needs),
        ("Followed by", entry.followed_by),
        ("Preserves", ("everything",) if entry.preserves == ("*",) else entry.preserves),
        ("Promises", entry.claims),
        ("Groups", entry.groups),
        ("Tags", entry.tags),
        ("Aliases", tuple(entry.aliases)),
        ("Defined in", (entry.place,)),
    ]
    parts.append("\n".join(f"{label + ':':13} {', '.join(values)}" for label, values in facts if values))
    return "\n\n".join(parts)


def _option_line(name: str, type_: str, default: str, help_: str) -> str:
    return f"  {name}={default}  ({type_})" + (f"  {help_}" if help_ else "")
