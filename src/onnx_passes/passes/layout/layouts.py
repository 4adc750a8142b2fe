"""Layouts: a letter for each axis, and the permutation from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from onnx_passes.core.errors import OptionError

_ARROW = ">"
_KEEP = "-"
_HINT = "write NHWC>NCHW, 0312, - for no change, or {assumes: NHWC, perm: [0, 3, 1, 2]}"


@dataclass(frozen=True)
class LayoutChange:
    """A permutation of axes; ``assumes`` and ``gives`` are the layouts before and after it, if named."""

    perm: tuple[int, ...]
    assumes: str = ""

    @property
    def gives(self) -> str:
        """Return the layout after the permutation."""
        return "".join(self.assumes[axis] for axis in self.perm) if self.assumes else ""

    def __str__(self) -> str:
        return f"{self.assumes}{_ARROW}{self.gives}" if self.assumes else "".join(map(str, self.perm))


def parse_change(given: object) -> LayoutChange | None:
    """Parse a change from text or a configuration entry; None for no change."""
    if given is None or given == _KEEP or given == {}:
        return None
    if isinstance(given, Mapping):
        entry = cast(Mapping[str, Any], given)
        if set(entry) <= {"assumes", "perm"} and isinstance(entry.get("perm"), Sequence):
            return _checked(list(entry["perm"]), str(entry.get("assumes") or ""), entry)
        raise _refused(entry)
    text = str(given)
    assumes, arrow, gives = text.partition(_ARROW)
    if arrow:
        if sorted(assumes) != sorted(gives):
            raise _refused(given)
        return _checked([assumes.find(letter) for letter in gives], assumes, given)
    return _checked([int(digit) if digit.isdecimal() else -1 for digit in text], "", given)


def change_text(given: object) -> str:
    """Return the short text form of a change."""
    change = parse_change(given)
    return _KEEP if change is None else str(change)


def _checked(perm: list[Any], assumes: str, given: object) -> LayoutChange:
    if not perm or sorted(map(str, perm)) != sorted(map(str, range(len(perm)))):
        raise _refused(given)
    if assumes and (len(assumes) != len(perm) or len(set(assumes)) != len(assumes)):
        raise _refused(given)
    return LayoutChange(tuple(int(axis) for axis in perm), assumes)


def _refused(given: object) -> OptionError:
    return OptionError(f"{given!r} is not a change of layout", hint=_HINT)
