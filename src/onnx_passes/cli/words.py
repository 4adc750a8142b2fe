"""Which words of a command line are models, and which are passes.

``onnx-passes model.onnx cleanup simplify`` and ``onnx-passes simplify model.onnx out.onnx`` mean what they say: models
stand before the passes or behind them. A word that names a pass or a group is one, whatever files there are; a file of
that name is written with its folder, as ``./simplify``.
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
from onnx_passes.graph.formats import FORMATS

_HEAD = re.compile(r"[^\s{}(),]*")


@dataclass(frozen=True)
class Words:
    """Models to read, passes to run, and where the results go if a word says so."""

    models: tuple[str, ...]
    passes: tuple[str, ...]
    output: str | None = None


def sort_words(words: Sequence[str], *, has_output: bool = False) -> Words:
    """Tell models from passes; behind passes, the last of several models is the output, unless an option is."""
    if not is_pass(words[0]):
        first, *others = words
        more = tuple(takewhile(_is_model, others))
        return Words((first, *more), tuple(others[len(more) :]))
    passes = tuple(takewhile(lambda word: not _is_model(word), words))
    models = tuple(words[len(passes) :])
    if not models:
        raise UsageError(
            f"no model is named: '{passes[0]}' is a pass",
            hint=f"write 'onnx-passes {' '.join(passes)} in.onnx out.onnx'; a file of that name is './{passes[0]}'",
        )
    for word in models:
        if not _is_model(word):
            raise UsageError(f"'{word}' stands behind models", hint="passes come before all models, or behind them")
    if has_output or len(models) == 1:
        return Words(models, passes)
    *inputs, output = models
    if len(inputs) > 1 and not names_folder(output):
        raise UsageError(f"{len(inputs)} models cannot all become {output}", hint="name a folder last, or with -o")
    return Words(tuple(inputs), passes, output)


def names_folder(path: str) -> bool:
    """Tell whether a path is that of a folder, or is written as one."""
    return path.endswith(("/", os.sep)) or Path(path).is_dir()


def require_first(word: str, commands: Sequence[str]) -> None:
    """Tell a mistyped command or pass from a missing file: both come first."""
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
    """Tell whether a word names a pass or group, alone or with options."""
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
