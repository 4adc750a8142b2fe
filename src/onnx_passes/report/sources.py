"""Where passes and rules are written, and what they say of themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass
    from onnx_passes.core.records import RunRecord

_PACKAGE = Path(__file__).parents[1]


def pass_texts(run: RunRecord) -> dict[str, dict[str, str]]:
    """Return summary, documentation and place of every pass that a run came to."""
    ran = {step.name for step in run.steps}
    return {name: _texts(pass_) for name, pass_ in sorted(_passes(run)) if name in ran}


def rule_texts(run: RunRecord) -> dict[str, dict[str, str]]:
    """Return pass and place of every rule that was applied."""
    found: dict[str, dict[str, str]] = {}
    for step in run.steps:
        for rule in step.rules:
            if rule.applied:
                found.setdefault(rule.name, {"pass": rule.owner or step.name, "source": short_source(rule.source)})
    return dict(sorted(found.items()))


def short_source(source: str) -> str:
    """Name a place in this package, or below the current folder, without what comes before that."""
    path, _, line = source.rpartition(":")
    if not path or not line.isdigit():
        return source
    for root, prefix in ((_PACKAGE, _PACKAGE.name), (Path.cwd(), "")):
        if Path(path).is_relative_to(root):
            return f"{Path(prefix, Path(path).relative_to(root)).as_posix()}:{line}"
    return source


def _passes(run: RunRecord) -> Iterator[tuple[str, type[Pass]]]:
    found: dict[str, type[Pass]] = {}
    if run.plan is not None:
        for _, step in run.plan.walk():
            found.setdefault(step.name, type(step.pass_))
    yield from found.items()


def _texts(cls: type[Pass]) -> dict[str, str]:
    doc = inspect.getdoc(cls) or ""
    try:
        source = f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        source = cls.__module__
    return {"summary": doc.partition("\n")[0], "doc": doc, "source": short_source(source)}
