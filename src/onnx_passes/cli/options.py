"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from onnx_passes.cli.limits import limit_options
from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules

F = TypeVar("F", bound=Callable[..., Any])

_IMPORTS = "onnx_passes.imports"


IMPORTS = "imports"
"""Where a command remembers which modules it has imported."""


def _import_now(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    ctx.meta[IMPORTS] = value
    import_user_modules(value)
    ctx.meta[_IMPORTS] = value


def imported(ctx: click.Context) -> tuple[str, ...]:
    """Return the modules and files that were imported, so that other processes can do so: files by their full path."""
    names: tuple[str, ...] = ctx.meta.get(_IMPORTS, ())
    return tuple(str(Path(name).resolve()) if name.endswith(".py") or "/" in name else name for name in names)


def import_option(function: F) -> F:
    """Import modules with passes of the user before anything else happens."""
    return click.option(
        "--import",
        "imports",
        multiple=True,
        metavar="MODULE",
        callback=_import_now,
        expose_value=False,
        is_eager=True,
        help="Import a module or file that registers passes or operators; may be repeated.",
    )(function)


def json_option(function: F) -> F:
    """Print data for programs instead of text for people."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")(function)


def config_option(function: F) -> F:
    """Read a configuration file."""
    return click.option("-c", "--config", "config_file", metavar="FILE", help="Configuration file (YAML).")(function)


def debug_option(function: F) -> F:
    """Show the traceback of errors; read by the entry point."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(function)


def common_options(function: F) -> F:
    """Print JSON, import passes of the user, show tracebacks: options of all commands that know passes."""
    return json_option(import_option(debug_option(function)))


def running_options(function: F) -> F:
    """Have the common options, and limit what the execution of models may take."""
    return json_option(import_option(limit_options(debug_option(function))))


class Answer(Protocol):
    """What a command found, as text and as plain data."""

    def to_json(self) -> Any:
        """Return plain data."""
        ...


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer for people, or for programs."""
    click.echo(json.dumps(answer.to_json(), indent=2, default=str) if as_json else str(answer))


def parse_size(text: str, option: str) -> tuple[str, int]:
    """Read the name and the size of a dimension."""
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise UsageError(f"'{text}' gives no size to a dimension", hint=f"write {option} N=8")
    return name, int(size)
