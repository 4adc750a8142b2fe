"""Options that say what a model is given and what stays as it is: passes in front of the pipeline, which plan shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from onnx_passes.core.errors import UsageError
from onnx_passes.core.pipeline import Item, parse_pipeline

if TYPE_CHECKING:
    from onnx_passes.core.config import Config

F = TypeVar("F", bound=Callable[..., Any])

_SHAPES, _INPUTS, _KEEP = "shapes", "set_inputs", "keep"


def interface_options(function: F) -> F:
    """Fix sizes, set the numbers of inputs, and keep nodes."""
    shapes = _option(
        "--shape",
        _SHAPES,
        "NAME=SIZE[,SIZE]…",
        "Fix the shape of an input, as x=1,3,224,224, or a dimension, as batch=1; may be repeated.",
    )
    inputs = _option(
        "--set-input",
        _INPUTS,
        "OPTIONS",
        "Say what an input holds, as name=x,type=UINT8,scale=0.0039 (see 'explain set-input'); may be repeated.",
    )
    keep = _option(
        "--keep", _KEEP, "PATTERN", "Keep nodes as they are, by name, result or operator, as 'conv1*'; may be repeated."
    )
    return shapes(inputs(keep(function)))


def _option(flag: str, name: str, metavar: str, text: str) -> Callable[[F], F]:
    def remember(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
        context.meta[name] = value

    return click.option(flag, name, multiple=True, metavar=metavar, callback=remember, expose_value=False, help=text)


def with_interface(items: tuple[Item, ...], config: Config) -> tuple[Item, ...]:
    """Put what the command line and the configuration say of inputs and nodes around a pipeline."""
    context = click.get_current_context(silent=True)
    given: Mapping[str, tuple[str, ...]] = {} if context is None else cast("dict[str, tuple[str, ...]]", context.meta)
    shapes = {**config.shapes, **dict(map(_shape, given.get(_SHAPES, ())))}
    before: list[Item] = [Item("fix-shapes", tuple(shapes.items()))] if shapes else []
    before += _inputs(config, given.get(_INPUTS, ()))
    keep = (*config.keep, *given.get(_KEEP, ()))
    if not keep:
        return (*before, *items)
    return (*before, Item("keep-nodes", (("nodes", list(keep)),)), *items, Item("keep-nodes"))


def _shape(text: str) -> tuple[str, object]:
    name, _, sizes = text.rpartition("=")
    if not name or not sizes:
        raise UsageError(f"'{text}' is no shape", where="--shape", hint="write x=1,3,224,224 or batch=1")
    listed = [size.strip() for size in sizes.strip("[]").split(",")]
    return name.strip(), listed if len(listed) > 1 or sizes.startswith("[") else listed[0]


def _inputs(config: Config, texts: tuple[str, ...]) -> Iterator[Item]:
    for name, options in config.inputs.items():
        if not isinstance(options, Mapping):
            raise UsageError(f"expected the options of input '{name}'", where="inputs", hint="as in x: {type: UINT8}")
        yield Item("set-input", (("name", name), *cast("Mapping[str, object]", options).items()))
    for text in texts:
        yield from parse_pipeline(f"set-input{{{text}}}")
