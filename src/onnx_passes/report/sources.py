"""The source locations and documentation of passes and rules."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.core.errors import UnknownPassError
from onnx_passes.core.registry import REGISTRY

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass
    from onnx_passes.core.records import RunRecord

_PACKAGE = Path(__file__).parents[1]


class Sources:
    """The passes of a run, the passes with its rules, and the applied rules.

    Rules of several passes may have one name: ``label`` distinguishes them.
    """

    def __init__(self, run: RunRecord) -> None:
        classes = _classes(run)
        applied = {
            (rule.name, rule.source): rule.owner or step.name
            for step in run.steps
            for rule in step.rules
            if rule.applied
        }
        wanted = {*(step.name for step in run.steps), *applied.values()}
        found = {name: cls for name in sorted(wanted) if (cls := classes.get(name) or _registered(name)) is not None}
        self.passes = {name: _texts(cls) for name, cls in found.items()}
        self._labels = _labels(applied)
        self.rules = {
            self._labels[key]: _rule_texts(key[1], owner, found.get(owner)) for key, owner in sorted(applied.items())
        }

    def label(self, name: str, source: str) -> str:
        """Return the unique label of a rule."""
        return self._labels.get((name, source), name)


def short_source(source: str) -> str:
    """Return a source location relative to this package or the current folder."""
    path, _, line = source.rpartition(":")
    if not path or not line.isdigit():
        return source
    for root, prefix in ((_PACKAGE, _PACKAGE.name), (Path.cwd(), "")):
        if Path(path).is_relative_to(root):
            return f"{Path(prefix, Path(path).relative_to(root)).as_posix()}:{line}"
    return source


def _classes(run: RunRecord) -> dict[str, type[Pass]]:
    return {} if run.plan is None else {step.name: type(step.pass_) for _, step in run.plan.walk()}


def _registered(name: str) -> type[Pass] | None:
    """Return the class of a pass that took part without a step of its own."""
    try:
        entries = REGISTRY.find(name).entries
    except UnknownPassError:
        return None
    return REGISTRY.load(entries[0]) if len(entries) == 1 else None


def _labels(applied: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Call a rule by its name and, where that is not enough, by its pass and line."""
    names = Counter(name for name, _ in applied)
    owned = Counter((name, owner) for (name, _), owner in applied.items())
    labels: dict[tuple[str, str], str] = {}
    for (name, source), owner in applied.items():
        where = owner if owned[name, owner] == 1 else f"{owner}, line {source.rpartition(':')[2]}"
        labels[name, source] = name if names[name] == 1 else f"{name} ({where})"
    return labels


def _rule_texts(source: str, owner: str, cls: type[Pass] | None) -> dict[str, str]:
    laws: Sequence[object] = getattr(cls, "laws", ())
    law = next((str(law) for law in laws if getattr(law, "source", None) == source), "")
    return {"pass": owner, "source": short_source(source), **({"doc": law} if law else {})}


def _texts(cls: type[Pass]) -> dict[str, str]:
    doc = inspect.getdoc(cls) or ""
    try:
        source = f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        source = cls.__module__
    return {"summary": doc.partition("\n")[0], "doc": doc, "source": short_source(source)}
