"""``onnx-passes explain``: rewrites, refusals and claims of a pass, and the semantics of a custom operator."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.complete import pass_or_operator
from onnx_passes.cli.options import common_options
from onnx_passes.core.errors import UnknownPassError, did_you_mean
from onnx_passes.core.naming import kebab
from onnx_passes.core.registry import REGISTRY, Entry, Resolved
from onnx_passes.proofs.rule_certificate import RuleCertificate, current_certificates
from onnx_passes.report.columns import reflowed, width_of

if TYPE_CHECKING:
    from onnx_passes.ops.definition import Definition


@click.command("explain", short_help="Explain a pass, or an operator of quantized networks.")
@click.argument("names", nargs=-1, required=True, shell_complete=pass_or_operator)
@common_options
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Explain passes, groups and custom operators.

    For a pass: what it rewrites, refuses and promises, and its options. For an operator such as Quant: its semantics,
    inputs and attributes, and its domains.
    """
    found = [thing for name in names for thing in _find(name)]
    if as_json:
        click.echo(json.dumps([data for thing in found for data in _data(thing)], indent=2))
        return
    text = "\n\n".join(_explain(thing) for thing in found)
    click.echo(reflowed(text, width_of(sys.stdout, sys.maxsize)))


def _find(name: str) -> tuple[Resolved | Definition, ...]:
    """Look up passes first: operators take longer to load."""
    try:
        return (REGISTRY.find(name),)
    except UnknownPassError:
        from onnx_passes import operators
        from onnx_passes.ops.describe import definitions_named, operator_names

        # An operator is explained with the interfaces of all packages.
        operators.interfaces()
        definitions = definitions_named(name)
        if not definitions:
            raise UnknownPassError(
                f"there is no pass, group or operator named '{name}'",
                hint=did_you_mean(kebab(name), [*REGISTRY.names(), *operator_names()])
                or "'onnx-passes list' shows all names",
            ) from None
        return definitions


def _data(thing: Resolved | Definition) -> list[dict[str, object]]:
    if isinstance(thing, Resolved):
        return [entry.to_json() for entry in thing.entries]
    from onnx_passes.ops.describe import to_json

    return [to_json(thing)]


def _explain(thing: Resolved | Definition) -> str:
    if isinstance(thing, Resolved):
        return _explain_found(thing)
    from onnx_passes.ops.describe import to_text

    return to_text(thing)


def _explain_found(found: Resolved) -> str:
    if found.is_group:
        members = "\n".join(f"  {entry.name}: {entry.summary}" for entry in found.entries)
        return f"{found.name} (group)\n\nRuns its members in this order:\n{members}"
    return _explain_entry(found.entries[0], found)


def _explain_entry(entry: Entry, found: Resolved) -> str:
    title = f"{entry.name} ({entry.kind})"
    if found.preset:
        title = f"{found.name} = {entry.name}{{{found.preset}}} ({entry.kind})"
    parts = [title, entry.doc or "(no documentation)"]
    if entry.options:
        parts.append("Options:\n" + "\n".join(_option_line(o.name, o.type, o.default, o.help) for o in entry.options))
    if entry.laws:
        parts.append("Laws:\n" + "\n".join(f"  {law}" for law in entry.laws))
    held = current_certificates(entry.name)
    if held is not None:
        parts.append("Certificates:\n" + "\n".join(_certificate_line(each) for each in held.rules.values()))
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


def _certificate_line(certificate: RuleCertificate) -> str:
    if not certificate.is_proved:
        return f"  {certificate.rule}: {certificate.level if certificate.void else 'not proved'} ({certificate.lacks})"
    return f"  {certificate.rule}: {certificate.level} by {certificate.method}; {certificate.domain}"


def _option_line(name: str, type_: str, default: str, help_: str) -> str:
    return f"  {name}={default}  ({type_})" + (f"  {help_}" if help_ else "")
