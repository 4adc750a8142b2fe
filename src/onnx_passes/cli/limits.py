"""Limits of the execution of models, for the whole command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onnx_passes.core.errors import UsageError
from onnx_passes.core.options import Size, convert

if TYPE_CHECKING:
    from onnx_passes.core.config import Config

F = TypeVar("F", bound=Callable[..., Any])

_TIME, _MEMORY = "time_limit", "memory_limit"


def limit_options(function: F) -> F:
    """Add the limits of time and memory to a command."""
    time = click.option(
        "--time-limit",
        _TIME,
        type=float,
        metavar="SECONDS",
        callback=_limit_now,
        expose_value=False,
        help="Time limit of one run of a model [default: 60].",
    )
    memory = click.option(
        "--memory-limit",
        _MEMORY,
        metavar="SIZE",
        callback=_limit_now,
        expose_value=False,
        help="Memory limit of one run of a model [default: 4GiB].",
    )
    return time(memory(function))


def limit_as_configured(config: Config) -> None:
    """Set the limits of the configuration, unless the command line has set them."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    for name in (_TIME, _MEMORY):
        value = getattr(config.onnxruntime, name)
        if value is not None and name not in context.meta:
            _limit(context, name, value)


def limits_given(context: click.Context) -> None:
    """Mark the current limits as set, so that a configuration does not change them."""
    context.meta.update(dict.fromkeys((_TIME, _MEMORY)))


def _limit_now(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is None:
        return
    name = str(parameter.name)
    context.meta[name] = value
    if name == _MEMORY:
        try:
            value = convert(value, Size)
        except ValueError as error:
            raise UsageError(f"--memory-limit does not take '{value}'", hint=f"it takes {error}") from None
    _limit(context, name, value)


def _limit(context: click.Context, name: str, value: Any) -> None:
    from onnx_passes.verify.run.resources import limited

    context.with_resource(limited(**{name: value}))
