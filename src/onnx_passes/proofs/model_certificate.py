"""Certificates: two models, the windows in which they differ, and what is proved of each; to be checked by anybody."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.proofs.algebra import UnsupportedError
from onnx_passes.proofs.changed_parts import Comparison, Pair
from onnx_passes.proofs.equal import Effort, prove_equal
from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.runs import confirmed
from onnx_passes.proofs.smaller_images import shrink_images

FORMAT = "onnx-passes certificate 1"
_TOO_LARGE = ("too large", "a window of more")
_MOST_ROUNDS = 12
"""How often windows are made larger."""
_ORDER = ("proved", "proved-here", "equal-in-reals", "unproved", "refuted")
_PACKAGES = ("onnx-passes", "onnx", "onnx-ir", "onnxruntime", "numpy", "z3-solver")


@dataclass(frozen=True)
class WindowResult:
    """What is known of one value that both models compute, in different ways."""

    output: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    result: Proof | Unproved
    is_confirmed: bool = False
    """ONNX Runtime computes different bits for the example that refutes it."""

    @property
    def level(self) -> str:
        """Return how strong the proof is."""
        if isinstance(self.result, Proof):
            return self.result.level
        return "refuted" if self.is_confirmed else "unproved"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        told = {"output": self.output, "before": list(self.removed), "after": list(self.added)}
        example = getattr(self.result, "example", None)
        shown = {} if not self.is_confirmed or example is None else {"example": _listed(example)}
        return {**told, **self.result.to_json(), "level": self.level, **shown}


@dataclass(frozen=True)
class ModelCertificate:
    """All windows of two models; their hashes, and the versions that it was made with."""

    before: str
    after: str
    windows: tuple[WindowResult, ...]
    allow: tuple[str, ...]
    versions: Mapping[str, str]
    facts: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """Return the level of the weakest window; models without any are the same."""
        return max((window.level for window in self.windows), key=_ORDER.index, default="proved")

    @property
    def is_refuted(self) -> bool:
        """Tell whether ONNX Runtime confirms that a window computes something else."""
        return any(window.level == "refuted" for window in self.windows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "format": FORMAT,
            "level": self.level,
            "before": self.before,
            "after": self.after,
            "allow": list(self.allow),
            "facts": list(self.facts),
            "windows": [window.to_json() for window in self.windows],
            "versions": dict(self.versions),
        }


def certify(
    before: ir.Model,
    after: ir.Model,
    *,
    effort: Effort = "normal",
    allow: Collection[str] = ROUNDING,
    solver: bool = True,
    facts: tuple[str, ...] = (),
) -> ModelCertificate:
    """Prove window by window that two models with known shapes compute the same."""
    search = _Search(Comparison(before, after), effort, allow, solver)
    results = search.run()
    hashes = [full_hash(model).hex() for model in (before, after)]
    return ModelCertificate(hashes[0], hashes[1], tuple(results), tuple(sorted(allow)), _versions(), facts)


@dataclass
class _Search:
    """Looks for windows that can be proved: behind pairs of values that turn out to differ they are made larger."""

    comparison: Comparison
    effort: Effort
    allow: Collection[str]
    solver: bool
    known: dict[tuple[object, ...], WindowResult] = field(default_factory=dict[tuple[object, ...], WindowResult])

    def run(self) -> list[WindowResult]:
        """Prove all windows; what had to be assumed and could not be proved is not assumed the next time."""
        outputs = set(self.comparison.outputs())
        for _ in range(_MOST_ROUNDS):
            results, failed = self._round()
            fresh = failed - outputs - self.comparison.distrusted
            if not fresh:
                return results
            self.comparison.distrusted |= fresh
        return self._round()[0]

    def _round(self) -> tuple[list[WindowResult], set[Pair]]:
        pending = self.comparison.outputs()
        seen = set(pending)
        results: list[WindowResult] = []
        failed: set[Pair] = set()
        while pending:
            a, b = pending.pop()
            if self.comparison.are_same(a, b):
                continue
            more = self.comparison.inputs_of(a, b)
            if more is None:
                found, more = self._window(a, b)
                results.append(found)
                # What is too large does not get better by being larger.
                if isinstance(found.result, Unproved) and not found.result.reason.startswith(_TOO_LARGE):
                    failed |= set(more) or {(a, b)}
            fresh = [pair for pair in more if pair not in seen]
            seen.update(fresh)
            pending.extend(fresh)
        return sorted(results, key=lambda result: result.output), failed

    def _window(self, a: ir.Value, b: ir.Value) -> tuple[WindowResult, list[Pair]]:
        """Prove one window; returns what it assumes as well."""
        name = a.name or b.name or ""
        try:
            part = self.comparison.window(a, b)
        except UnsupportedError as error:
            return WindowResult(name, (), (), Unproved(str(error))), []
        key = (a, b, *part.removed, *part.added, *part.assumed)
        if key not in self.known:
            assert part.models is not None
            fact = shrink_images(*part.models)
            result = prove_equal(*part.models, effort=self.effort, allow=self.allow, solver=self.solver)
            if fact and isinstance(result, Proof):
                result = replace(result, facts=(*result.facts, fact))
            refuted = isinstance(result, Unproved) and result.refuted
            example = result.example if isinstance(result, Unproved) else None
            is_confirmed = refuted and (example is None or confirmed(*part.models, example))
            told = [tuple(node.op_type for node in nodes) for nodes in (part.removed, part.added)]
            self.known[key] = WindowResult(name, told[0], told[1], result, is_confirmed)
        return self.known[key], part.assumed


def differences(old: Mapping[str, Any], new: ModelCertificate) -> list[str]:
    """Say in what a certificate that was read differs from one that was just made."""
    if old.get("format") != FORMAT:
        raise UsageError("this is no certificate", hint="make one with 'onnx-passes certify A B --json FILE'")
    made = new.to_json()
    found = [f"the model {side} is another one" for side in ("before", "after") if old.get(side) != made[side]]
    if found:
        return found
    told = [{key: window.get(key) for key in ("output", "before", "after", "level")} for window in old["windows"]]
    again = [{key: window.get(key) for key in ("output", "before", "after", "level")} for window in made["windows"]]
    for window, other in zip(told, again, strict=False):
        if window != other:
            found.append(f"'{window['output']}' was {window['level']}, and is {other['level']}")
    if len(told) != len(again):
        found.append(f"{len(told)} windows were there, and are {len(again)}")
    return found


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _listed(example: Mapping[str, Any]) -> dict[str, Any]:
    return {name: [str(number) for number in array.reshape(-1)[:64]] for name, array in example.items()}
