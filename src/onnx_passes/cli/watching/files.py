"""Files that a run depends on, and their changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import click

from onnx_passes.cli.words import sort_words
from onnx_passes.core.config import read_config
from onnx_passes.core.errors import UsageError

State = tuple[int, int, int]
"""Time of the last change, size, and inode: editors replace a file by a new one."""


@dataclass(frozen=True)
class CommandLine:
    """Command line of ``run``, parsed as far as a watch needs it."""

    model: Path
    config: Path | None
    imports: tuple[str, ...]
    data: tuple[str, ...]
    output: str | None

    def files(self) -> dict[Path, None]:
        """Return the files on the command line: model with its weights, configuration, passes and data."""
        names = (self.model, *_weights(self.model), *filter(_is_file, self.imports), *self.data)
        found = dict.fromkeys(map(Path, names))
        if self.config is not None:
            found[self.config] = None
            found.update(dict.fromkeys(self.config.parent / name for name in _configured_imports(self.config)))
        return found


def understood(arguments: Sequence[str]) -> CommandLine:
    """Parse a command line of ``run`` without side effects: only the run itself imports modules."""
    from onnx_passes.cli.commands.run import command

    # Only parse: processing options has side effects, as --import has. Unknown options stay errors.
    parser = command.make_parser(click.Context(command, info_name="onnx-passes run"))
    given, _, _ = parser.parse_args(list(arguments))
    words = given.get("words")
    if not isinstance(words, tuple | list) or not words:
        raise click.UsageError("Missing argument 'MODEL'.")
    found = sort_words(cast("Sequence[str]", words), has_output=bool(given.get("output")))
    model = found.models[0]
    if len(found.models) > 1:
        raise UsageError("only one model can be watched", hint="name one model")
    if model == "-":
        raise UsageError("standard input cannot be watched", hint="name a file")
    if given.get("in_place"):
        raise UsageError(
            "a model that is overwritten would change after every run", hint="use --output instead of --in-place"
        )
    if not Path(model).is_file():
        raise UsageError("there is no such file", where=model, hint="name a model before the passes")
    config = given.get("config_file")
    return CommandLine(
        Path(model),
        Path(config) if config else None,
        tuple(given.get("imports") or ()),
        tuple(name for option in ("inputs", "expect", "dataset") for name in given.get(option) or ()),
        given.get("output") or found.output,
    )


def _weights(model: Path) -> list[Path]:
    """List the external weight files next to a model."""
    names = (f"{model}.data", f"{model}_data", f"{model.with_suffix('')}.data")
    return [Path(name) for name in names if Path(name).is_file()]


def _configured_imports(config: Path) -> list[str]:
    try:
        data = read_config(config)
    except UsageError:
        return []
    names = data.get("imports") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return [str(name) for name in names if _is_file(str(name))] if isinstance(names, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name


class Watched:
    """Watched files, with their last known states."""

    def __init__(self, files: Iterable[Path], *, wait: Callable[[float], None] = time.sleep) -> None:
        self.files = list(files)
        self.states = self._look()
        self._wait = wait

    def changed(self, settle: float = 0.15) -> list[Path]:
        """Return the files that changed since the last call, once their writes have settled."""
        states = self._look()
        if states == self.states:
            return []
        while True:
            self._wait(settle)
            again = self._look()
            if again == states:
                break
            states = again
        changed = [file for file in self.files if states[file] != self.states[file]]
        self.states = states
        return changed

    def watch(self, files: Iterable[Path]) -> None:
        """Watch these files instead; changes since their last known states are still reported."""
        self.files = list(files)
        now = self._look()
        self.states = {file: self.states.get(file, state) for file, state in now.items()}

    def _look(self) -> dict[Path, State | None]:
        return {file: state_of(file) for file in self.files}


def state_of(file: Path) -> State | None:
    """Return the state of a file that shows changes; None if it does not exist."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
