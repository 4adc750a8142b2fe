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
"""Key of a context for the modules that a command has imported."""


def _import_now(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    ctx.meta[IMPORTS] = value
    import_user_modules(value)
    ctx.meta[_IMPORTS] = value


def imported(ctx: click.Context) -> tuple[str, ...]:
    """Return the modules and files that were imported, for other processes: files by their full path."""
    names: tuple[str, ...] = ctx.meta.get(_IMPORTS, ())
    return tuple(str(Path(name).resolve()) if name.endswith(".py") or "/" in name else name for name in names)


def import_option(function: F) -> F:
    """Add the option that imports modules with passes of the user first."""
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
    """Add the option that prints data for programs instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")(function)


def config_option(function: F) -> F:
    """Add the option for a configuration file."""
    return click.option("-c", "--config", "config_file", metavar="FILE", help="Configuration file (YAML).")(function)


def debug_option(function: F) -> F:
    """Add the option that shows the traceback of errors; the entry point reads it."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(function)


def common_options(function: F) -> F:
    """Add the options of all commands that know passes: JSON, imports, tracebacks."""
    return json_option(import_option(debug_option(function)))


def running_options(function: F) -> F:
    """Add the common options, and the limits of the execution of models."""
    return json_option(import_option(limit_options(debug_option(function))))


class CommandResult(Protocol):
    """Result of a command, as text and as plain data."""

    def to_json(self) -> Any:
        """Return plain data."""
        ...


def show(answer: CommandResult, *, as_json: bool) -> None:
    """Print a result, as text or as JSON."""
    click.echo(json.dumps(answer.to_json(), indent=2, default=str) if as_json else str(answer))


def parse_size(text: str, option: str) -> tuple[str, int]:
    """Parse the name and the size of a dimension."""
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise UsageError(f"'{text}' is not a dimension with a size", hint=f"write {option} N=8")
    return name, int(size)
