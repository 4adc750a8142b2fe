"""Passes and rules that a pipeline skips, at any depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from onnx_passes.core.errors import OptionError, did_you_mean
from onnx_passes.core.naming import fold, kebab

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass


_GLOB = set("*?[")


class Skipping:
    """Names to skip, ``fuse-bias`` or ``eliminate-slice/SliceOfSlice``, and which of them were found.

    ``*`` and ``?`` are wildcards.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._wanted = tuple(names)
        self._found: set[str] = set()
        self._seen: dict[str, None] = {}

    def leaves_out(self, names: Iterable[str]) -> bool:
        """Return whether a pass or group with these names is skipped, and record it."""
        known = [kebab(name) for name in names]
        self._seen.update(dict.fromkeys(known))
        found = {wanted for wanted in self._wanted if "/" not in wanted and any(_fits(name, wanted) for name in known)}
        self._found |= found
        return bool(found)

    def leave_out_rules(self, pass_: Pass) -> None:
        """Skip rules of a pass; if it can list its rules, the names must be among them."""
        for wanted in self._wanted:
            owner, _, rule = wanted.partition("/")
            if rule and _fits(pass_.name, owner):
                told = _rules_of(pass_)
                names = [name for name in told if _fits(name, rule)] if told is not None else [rule]
                self._seen.update(dict.fromkeys(f"{pass_.name}/{name}" for name in told or ()))
                if names:
                    self._found.add(wanted)
                    vars(pass_)["skipped_rules"] = pass_.skipped_rules | set(map(fold, names))

    def refuse_unfound(self) -> None:
        """Refuse names that no pass or rule has."""
        for wanted in self._wanted:
            if wanted not in self._found:
                raise OptionError(
                    f"'{wanted}' is not a pass or rule of this pipeline, and cannot be skipped",
                    hint=did_you_mean(wanted, self._seen) or "'onnx-passes plan' shows them; needed passes stay",
                )


def _fits(name: str, pattern: str) -> bool:
    if not _GLOB & set(pattern):
        return fold(name) == fold(pattern)
    return fnmatchcase(name, pattern) or fnmatchcase(kebab(name), pattern.lower())


def _rules_of(pass_: Pass) -> list[str] | None:
    """Return the names of the rules of a pass; unknown for a hand-written one."""
    rules: Callable[[], Iterable[Any]] | None = getattr(pass_, "rules", None)
    return None if rules is None else [str(rule.name) for rule in rules()]
