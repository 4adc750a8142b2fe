"""The reference of the command line: a page for each command, with its arguments and options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import click

from generators.markdown import code, fenced, prose, table, toctree, write_page
from onnx_passes.cli.main import COMMANDS, cli


def write_command_line(folder: Path) -> None:
    """Write a page for each command, and an index of them."""
    context = click.Context(cli, info_name="onnx-passes", help_option_names=cli.context_settings["help_option_names"])
    found = {name: command for name in COMMANDS if (command := cli.get_command(context, name)) is not None}
    for name, command in found.items():
        write_page(folder / f"{name}.md", *_page(name, command, context))
    summaries = ((f"[{code(name)}]({name}.md)", prose(command.short_help or "")) for name, command in found.items())
    write_page(
        folder / "index.md",
        "# Command line",
        fenced(f"onnx-passes [COMMAND] [OPTIONS] …\n\n{_plain(cli.epilog or '')}"),
        table(("command", ""), summaries),
        toctree(found),
    )


def _page(name: str, command: click.Command, parent: click.Context) -> Iterable[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"# onnx-passes {name}"
    yield fenced(" ".join(["onnx-passes", name, *command.collect_usage_pieces(context)]))
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _paragraph(paragraph)
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows = [row for option in options if (row := option.get_help_record(context))]
    yield "## Options"
    yield table(("option", "meaning"), ((code(option), _paragraph(text)) for option, text in rows))
    if command.epilog:
        yield fenced(_plain(command.epilog))


def _paragraph(text: str) -> str:
    """Format help text; paragraphs with click's mark keep their lines."""
    if text.startswith("\b"):
        return fenced(_plain(text))
    return prose(text)


def _plain(text: str) -> str:
    return text.replace("\b\n", "").replace("\b", "")
