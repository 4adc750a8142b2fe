"""``onnx-passes list``: list passes, groups, operators and certificates."""

from __future__ import annotations

import json
import sys

import click

from onnx_passes.cli.complete import tags
from onnx_passes.cli.options import common_options
from onnx_passes.core.registry import REGISTRY, Entry
from onnx_passes.report.columns import Column, table_lines, width_of


@click.command("list", short_help="List passes and groups.")
@click.argument("words", nargs=-1)
@click.option("--tag", shell_complete=tags, help="Only passes with this tag.")
@click.option(
    "--kind",
    type=click.Choice(["analysis", "annotation", "transformation", "sequence", "operator"]),
    help="Only this kind.",
)
@click.option("--evidence", is_flag=True, help="List laws and rules with their certificates.")
@common_options
def command(words: tuple[str, ...], tag: str | None, kind: str | None, evidence: bool, as_json: bool) -> None:
    """List passes and groups, optionally only those whose name or summary contains all WORDS.

    ``--kind operator`` lists the operators of quantized networks, including those of plug-ins. ``--evidence`` lists the
    laws and rules of passes, each with its certificate, and how many of them are proved.
    """
    if evidence:
        _list_evidence(words, as_json=as_json)
        return
    if kind == "operator":
        _list_operators(words, as_json=as_json)
        return
    entries = [entry for entry in REGISTRY.entries() if _wanted(entry, words, tag, kind)]
    groups = {name: members for name, members in REGISTRY.groups().items() if all(word in name for word in words)}
    if as_json:
        click.echo(json.dumps([entry.to_json() for entry in entries], indent=2))
        return
    if not entries and not groups:
        click.echo("no pass matches", err=True)
        return
    rows = [[entry.name, entry.kind, entry.summary] for entry in entries]
    rows += [[name, "group", ", ".join(member.name for member in members)] for name, members in groups.items()]
    _echo(rows)


def _echo(rows: list[list[str]]) -> None:
    columns = (Column(""), Column(""), Column("", shorten="wrap", least=20))
    for line in table_lines(columns, rows, width_of(sys.stdout, sys.maxsize)):
        click.echo(line)


def _list_evidence(words: tuple[str, ...], *, as_json: bool) -> None:
    from onnx_passes.report.evidence import evidence, missing, summary

    rows = evidence(words)
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=2, ensure_ascii=False))
        return
    columns = (*(Column(name) for name in ("rule", "level", "flags")), Column("method"), Column("domain or missing"))
    table = [
        [row.name, each.level, ", ".join(each.flags), each.method, each.lacks or str(each.domain)]
        for row in rows
        for each in [row.certificate]
    ]
    for line in table_lines(columns, table, sys.maxsize):
        click.echo(line)
    click.echo(summary(rows))
    for reason, count in missing(rows):
        click.echo(f"{count:4} lack: {reason}")


def _list_operators(words: tuple[str, ...], *, as_json: bool) -> None:
    """List the operators that have a definition, including those of plug-ins."""
    from onnx_passes.ops.definition import definitions
    from onnx_passes.ops.describe import to_json

    found = [to_json(definition) for definition in definitions()]
    wanted = [
        each for each in found if all(word.lower() in f"{each['operator']} {each['doc']}".lower() for word in words)
    ]
    if as_json:
        click.echo(json.dumps(wanted, indent=2))
        return
    _echo([[each["operator"], "operator", each["doc"].partition("\n")[0]] for each in wanted])


def _wanted(entry: Entry, words: tuple[str, ...], tag: str | None, kind: str | None) -> bool:
    text = f"{entry.name} {entry.summary}".lower()
    return (
        all(word.lower() in text for word in words)
        and (tag is None or tag in entry.tags)
        and (kind is None or kind == entry.kind)
    )
