"""Options that change the interface of a model, skip passes and keep nodes, as passes around the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from onnx_passes.core.errors import UsageError
from onnx_passes.core.pipeline import PipelineItem, parse_pipeline

if TYPE_CHECKING:
    from onnx_passes.core.config import Config

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Flag:
    """Repeatable option of the command line, and its key in a configuration."""

    flag: str
    key: str
    metavar: str
    help: str


_SHAPE = _Flag(
    "--shape",
    "shapes",
    "NAME=SIZE[,SIZE]…",
    "Fix the shape of an input, as x=1,3,224,224, or a dimension, as batch=1; may be repeated.",
)
_SET_INPUT = _Flag(
    "--set-input",
    "inputs",
    "OPTIONS",
    "Set type and range of an input, as name=x,type=UINT8,scale=0.0039 (see 'explain set-input'); may be repeated.",
)
_MAKE_INITIALIZER = _Flag(
    "--make-initializer",
    "make_initializers",
    "NAME=VALUE",
    "Make an input an initializer with these numbers, as n=1,2, or a file, as w=w.npy; may be repeated.",
)
_MAKE_INPUT = _Flag("--make-input", "make_inputs", "NAME", "Make an initializer an input; may be repeated.")
_FROM = _Flag("--from", "from", "VALUE", "Extract the part of the model after this value; may be repeated.")
_TO = _Flag("--to", "to", "VALUE", "Extract the part of the model up to this value; may be repeated.")
_ADD = _Flag("--add-output", "add_outputs", "VALUE", "Add a value of the model to its outputs; may be repeated.")
_DROP = _Flag("--drop-output", "drop_outputs", "NAME", "Remove an output; may be repeated.")
_RENAME = _Flag("--rename", "rename", "OLD=NEW", "Rename an input or output; may be repeated.")
_RENAME_DIMENSION = _Flag(
    "--rename-dim", "rename_dimensions", "OLD=NEW", "Rename a dynamic dimension; may be repeated."
)
_KEEP = _Flag(
    "--keep",
    "keep",
    "PATTERN",
    "Protect nodes from all passes, by name, result or operator, as 'conv1*'; may be repeated.",
)
_SKIP = _Flag(
    "--skip",
    "skip",
    "NAME",
    "Skip a pass, group or rule, as fuse-bias, 'fuse-*' or eliminate-slice/SliceOfSlice; may be repeated.",
)
_FLAGS = (
    *(_SHAPE, _SET_INPUT, _MAKE_INITIALIZER, _MAKE_INPUT, _FROM, _TO, _ADD, _DROP, _RENAME, _RENAME_DIMENSION),
    *(_SKIP, _KEEP),
)


def interface_options(function: F) -> F:
    """Add the options that change inputs and outputs, skip passes, and keep nodes."""
    for flag in reversed(_FLAGS):
        function = _option(flag)(function)
    return function


def _option(flag: _Flag) -> Callable[[F], F]:
    def remember(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
        context.meta[flag.flag] = value

    # The name of the parameter must not be one of those that a command has itself.
    name = f"flag_{flag.key}"
    return click.option(
        flag.flag, name, multiple=True, metavar=flag.metavar, callback=remember, expose_value=False, help=flag.help
    )


def with_interface(items: tuple[PipelineItem, ...], config: Config) -> tuple[PipelineItem, ...]:
    """Add the passes that the command line and the configuration ask for around a pipeline.

    All names are those of the original model, so renaming comes last.
    """
    asked = _Asked(config)
    whole = [
        *_item("fix-shapes", asked.mapping(_SHAPE, _shape)),
        *_inputs(config, asked.given(_SET_INPUT)),
        *_item("make-initializers", asked.mapping(_MAKE_INITIALIZER, _contents)),
        *_item("make-inputs", {"initializers": asked.list(_MAKE_INPUT)}),
        *_item("extract", {"inputs": asked.list(_FROM), "outputs": asked.list(_TO)}),
        *_item("add-outputs", {"names": asked.list(_ADD)}),
        *_item("drop-outputs", {"names": asked.list(_DROP)}),
        *_item("rename-interface", asked.mapping(_RENAME, _renamed(_RENAME))),
        *_item("rename-dimensions", asked.mapping(_RENAME_DIMENSION, _renamed(_RENAME_DIMENSION))),
    ]
    skipped, kept = asked.list(_SKIP), asked.list(_KEEP)
    if skipped:
        items = (PipelineItem("skip", (("names", skipped),), items),)
    if kept:
        items = (PipelineItem("keep-nodes", (("nodes", kept),)), *items, PipelineItem("keep-nodes"))
    return (*whole, *items)


class _Asked:
    """Options of the command line, appended to those of the configuration."""

    def __init__(self, config: Config) -> None:
        context = click.get_current_context(silent=True)
        self._config = config
        self._given = {} if context is None else cast("dict[str, tuple[str, ...]]", context.meta)

    def given(self, flag: _Flag) -> tuple[str, ...]:
        return self._given.get(flag.flag, ())

    def list(self, flag: _Flag) -> list[str]:
        if flag in (_FROM, _TO):
            return [*getattr(self._config.extract, "inputs" if flag is _FROM else "outputs"), *self.given(flag)]
        return [*getattr(self._config, flag.key), *self.given(flag)]

    def mapping(self, flag: _Flag, read: Callable[[str], tuple[str, object]]) -> dict[str, object]:
        return {**getattr(self._config, flag.key), **dict(map(read, self.given(flag)))}


def _item(name: str, options: Mapping[str, object]) -> Iterator[PipelineItem]:
    """Yield a pass if its options are not empty."""
    wanted = tuple((option, value) for option, value in options.items() if value != [])
    if wanted:
        yield PipelineItem(name, wanted)


def _shape(text: str) -> tuple[str, object]:
    name, sizes = _pair(text, _SHAPE, "shape", "write x=1,3,224,224 or batch=1")
    return name, _listed(sizes)


def _contents(text: str) -> tuple[str, object]:
    name, contents = _pair(text, _MAKE_INITIALIZER, "value of an input", "write n=1, n=1,2,3 or w=w.npy")
    return name, contents if contents.endswith((".npy", ".npz")) else _listed(contents)


def _renamed(flag: _Flag) -> Callable[[str], tuple[str, object]]:
    return lambda text: _pair(text, flag, "pair of names", "write old=new")


def _pair(text: str, flag: _Flag, kind: str, hint: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.rpartition("="))
    if not name or not value:
        raise UsageError(f"'{text}' is not a {kind}", where=flag.flag, hint=hint)
    return name, value


def _listed(text: str) -> str | Sequence[str]:
    parts = [part.strip() for part in text.strip("[]").split(",")]
    return parts if len(parts) > 1 or text.startswith("[") else parts[0]


def _inputs(config: Config, texts: tuple[str, ...]) -> Iterator[PipelineItem]:
    for name, options in config.inputs.items():
        if not isinstance(options, Mapping):
            raise UsageError(f"expected the options of input '{name}'", where="inputs", hint="as in x: {type: UINT8}")
        yield PipelineItem("set-input", (("name", name), *cast("Mapping[str, object]", options).items()))
    for text in texts:
        yield from parse_pipeline(f"set-input{{{text}}}")
