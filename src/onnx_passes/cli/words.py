"""Sort the words of a command line into models and passes.

Models come before the passes, as in ``onnx-passes model.onnx cleanup simplify``, or after them, as in ``onnx-passes
simplify model.onnx out.onnx``. Names of passes and groups take precedence over files; a file of such a name is written
with its folder, as ``./simplify``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from onnx_passes.core.errors import UnknownPassError, UsageError, did_you_mean
from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.origin import FORMATS

_HEAD = re.compile(r"[^\s{}(),]*")


@dataclass(frozen=True)
class Words:
    """Models to read, passes to run, and the output if a word names one."""

    models: tuple[str, ...]
    passes: tuple[str, ...]
    output: str | None = None


def sort_words(words: Sequence[str], *, has_output: bool = False) -> Words:
    """Sort words into models and passes; after passes, the last of several models is the output without an option."""
    if not is_pass(words[0]):
        first, *others = words
        more = tuple(takewhile(_is_model, others))
        return Words((first, *more), tuple(others[len(more) :]))
    passes = tuple(takewhile(lambda word: not _is_model(word), words))
    models = tuple(words[len(passes) :])
    if not models:
        raise UsageError(
            f"no model is given: '{passes[0]}' is a pass",
            hint=f"write 'onnx-passes {' '.join(passes)} in.onnx out.onnx'; a file of that name is './{passes[0]}'",
        )
    for word in models:
        if not _is_model(word):
            raise UsageError(
                f"the pass '{word}' is between models", hint="write passes before all models, or after them"
            )
    if has_output or len(models) == 1:
        return Words(models, passes)
    *inputs, output = models
    if len(inputs) > 1 and not names_folder(output):
        raise UsageError(
            f"{len(inputs)} models cannot be written to one file {output}", hint="name a folder last, or with -o"
        )
    return Words(tuple(inputs), passes, output)


def names_folder(path: str) -> bool:
    """Return whether a path is an existing folder, or ends with a slash."""
    return path.endswith(("/", os.sep)) or Path(path).is_dir()


def require_first(word: str, commands: Sequence[str]) -> None:
    """Raise the error for an unknown first word: a mistyped command or pass, or a missing file."""
    if word != "-" and not Path(word).exists() and not Path(word).suffix:
        raise UsageError(
            f"there is no file, command or pass '{word}'",
            hint=did_you_mean(word, (*commands, *REGISTRY.names()))
            or "the first word is a model file, a pass or a command; see 'onnx-passes --help'",
        )


def _is_model(word: str) -> bool:
    return _is_surely_model(word) or (not is_pass(word) and Path(word).exists())


def _is_surely_model(word: str) -> bool:
    head = _head(word)
    return word == "-" or "/" in head or os.sep in head or Path(word).suffix.lower() in FORMATS


def is_pass(word: str) -> bool:
    """Return whether a word is the name of a pass or group, with or without options."""
    if _is_surely_model(word) or not _head(word):
        return False
    try:
        REGISTRY.find(_head(word))
    except UnknownPassError:
        return False
    return True


def _head(word: str) -> str:
    """Return the name at the beginning of pipeline text."""
    found = _HEAD.match(word)
    return "" if found is None else found[0]
