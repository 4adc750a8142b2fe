"""Random pipelines: passes and groups of the registry in any order, with options, repeated and shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from onnx_passes.core.entry import Entry
from onnx_passes.core.plan import plan
from onnx_passes.core.registry import REGISTRY
from onnx_passes.testing.fuzz.draws import Draws

_COLLECTION = "onnx_passes"
_KINDS = ("transformation", "annotation", "sequence", "analysis")
_CONTROL = "control"
_CHANGES_INTERFACE = "inputs_after"
_UNJUDGED = frozenset({"remove-initializers-from-inputs", "verify", "check-streamlined", "check-structure"})
"""Passes whose purpose is to change the interface, or to refuse models."""
_ASSUMPTIONS = frozenset(
    {
        "check-type",
        "full-check",
        "inputs",
        "keep-interface",
        "measure",
        "nonempty",
        "outputs",
        "saturating",
        "strict",
        "strict-mode",
    }
)
"""Options that make assumptions about the model or its data, or change the interface."""
_MOST_PASSES = 8
_MOST_ROUNDS = 4
_SEEDS = 1000


@dataclass(frozen=True)
class Pipeline:
    """Passes as text, one item each, and the seed of a random order of nodes, if any."""

    items: tuple[str, ...]
    seed: int | None = None

    def __str__(self) -> str:
        inside = ", ".join(self.items)
        return inside if self.seed is None else f"shuffle{{seed={self.seed}}}({inside})"


def random_pipeline(draws: Draws, modules: tuple[str, ...] = ()) -> Pipeline:
    """Draw passes of the collection and of ``modules``.

    Half of the pipelines promise equality, so that no difference is accepted.
    """
    names = _candidates((_COLLECTION, *modules), exact=draws.happens(percent=50))
    items = [_item(draws, names) for _ in range(draws.number(1, _MOST_PASSES))]
    if len(items) > 1 and draws.happens(percent=25):
        inside = ", ".join(items[:3])
        items[:3] = [f"fixpoint{{max={_MOST_ROUNDS}}}({inside})"]
    return Pipeline(tuple(items), draws.number(0, _SEEDS - 1) if draws.happens(percent=50) else None)


def _item(draws: Draws, candidates: _Candidates) -> str:
    if candidates.collections and draws.happens(percent=40):
        return draws.freely(candidates.collections)
    entry = draws.freely(candidates.passes)
    given = [
        f"{option.name}={draws.freely(option.type.split(' | '))}"
        for option in entry.options
        if " | " in option.type and option.name not in _ASSUMPTIONS and draws.happens(percent=25)
    ]
    return entry.name + (f"{{{', '.join(given)}}}" if given else "")


@dataclass(frozen=True)
class _Candidates:
    passes: tuple[Entry, ...]
    collections: tuple[str, ...]
    """Groups and sequences."""


@cache
def _candidates(modules: tuple[str, ...], *, exact: bool) -> _Candidates:
    """Return the candidates for a pipeline: all judged passes, or only passes that claim equality."""
    known = {entry.name: entry for entry in REGISTRY.entries() if entry.module.partition(".")[0] in modules}
    good = {name for name, entry in known.items() if _is_judged(entry) and not (exact and _rounds(entry))}
    unfit = {name for name, entry in known.items() if _changes_what_is_compared(entry)}
    sequences = [name for name in good if known[name].kind == "sequence" and not _steps_of(name) & unfit]
    groups = [
        name
        for name, members in REGISTRY.groups().items()
        if {entry.name for entry in members} <= good and name not in known
    ]
    passes = tuple(known[name] for name in sorted(good) if known[name].kind != "sequence")
    return _Candidates(passes, tuple(sorted({*sequences, *groups})))


def _steps_of(name: str) -> set[str]:
    """List the passes in a sequence, at any depth."""
    return {step.name for _, step in plan(name).walk()}


def _is_judged(entry: Entry) -> bool:
    """Return whether a pass can run on any model: it needs no options, and keeps interface and types."""
    if entry.kind not in _KINDS or _CONTROL in entry.tags or entry.name in _UNJUDGED:
        return False
    return not _changes_what_is_compared(entry)


def _changes_what_is_compared(entry: Entry) -> bool:
    """Return whether a pass changes the interface, or computes in a shorter type."""
    computes_shorter = any("unit=" in claim for claim in entry.claims)
    return computes_shorter or (hasattr(REGISTRY.load(entry), _CHANGES_INTERFACE) and not _keeps_interface(entry))


def _keeps_interface(entry: Entry) -> bool:
    """Return whether a pass changes the interface only by its options."""
    return bool(_ASSUMPTIONS & {option.name for option in entry.options} & {"inputs", "outputs"}) and not any(
        option.type.startswith("list") for option in entry.options
    )


def _rounds(entry: Entry) -> bool:
    return entry.kind in ("transformation", "sequence") and not any(claim == "equality" for claim in entry.claims)
