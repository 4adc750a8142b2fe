"""Options of members: ``streamline{infer-thresholds.max-bits=3}`` sets an option of a pass in a sequence or group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from onnx_passes.core.errors import OnnxPassesError, OptionError, did_you_mean
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.options import ANY_NAME
from onnx_passes.core.pipeline import PipelineItem, parse_pipeline

if TYPE_CHECKING:
    from onnx_passes.core.registry import Entry, Registry, Resolved

Options = dict[str, object]


class MemberOptions:
    """Options of a sequence for its members, by member, and which of them were used.

    Their names are spelt as by ``spelt_options``.
    """

    def __init__(self, owner: str, given: Mapping[str, object]) -> None:
        self.owner = owner
        self._options: dict[str, Options] = {}
        self._spelling: dict[str, str] = {}
        for name, value in given.items():
            member, _, option = name.partition(".")
            self._options.setdefault(fold(member), {})[option] = value
            self._spelling.setdefault(fold(member), member)
        self._taken: set[str] = set()

    def of(self, member: str) -> Options:
        """Return the options for a member."""
        return self._options.get(fold(member), {})

    def take(self, member: str) -> Options:
        """Return the options for a member, and mark them as used."""
        self._taken.add(fold(member))
        return self.of(member)

    def refuse_untaken(self, members: Iterable[str]) -> None:
        """Refuse options for a name that is not a member."""
        for name in self._options.keys() - self._taken:
            known = list(dict.fromkeys(members))
            raise OptionError(
                f"'{self.owner}' has no member '{self._spelling[name]}'",
                hint=did_you_mean(kebab(self._spelling[name]), known)
                or f"'onnx-passes explain {self.owner}' lists them",
            )


def spelt_options(owner: str, given: Iterable[tuple[str, object]], registry: Registry) -> Options:
    """Return the options of a pass and of its members in canonical spelling; duplicates are an error."""
    spelt: Options = {}
    for option, value in given:
        name = _spelt(owner, option, registry)
        if name in spelt:
            raise OptionError(f"option '{option}' of '{owner}' is given twice", hint="'-', '_' and case do not matter")
        spelt[name] = value
    return spelt


def has_open_names(name: str, registry: Registry) -> bool:
    """Return whether users choose the names of the options of a pass, which then keep their spelling."""
    return ANY_NAME in _known_options(name, registry)


def _spelt(owner: str, option: str, registry: Registry) -> str:
    known = _known_options(owner, registry)
    if ANY_NAME in known and option.replace("_", "-") not in known:
        return option
    member, dot, rest = option.partition(".")
    return f"{kebab(member)}.{_spelt(member, rest, registry)}" if dot else kebab(option)


def _known_options(name: str, registry: Registry) -> list[str]:
    try:
        found = registry.find(name)
    except OnnxPassesError:
        return []
    return [] if found.is_group else [option.name for option in found.entries[0].options]


def split(given: Mapping[str, object]) -> tuple[Options, Options]:
    """Split options into those of a pass and those of its members, which contain a dot."""
    own = {name: value for name, value in given.items() if "." not in name}
    return own, {name: value for name, value in given.items() if "." in name}


def members_of(found: Resolved, registry: Registry, body: Iterable[PipelineItem] = ()) -> Iterator[Entry]:
    """List the passes inside a sequence or group, at any depth, without importing them."""
    seen = {entry.name for entry in found.entries if not found.is_group}
    waiting = [*(_inside(found, registry)), *(registry.find(item.name) for item in body)]
    while waiting:
        inner = waiting.pop(0)
        for entry in inner.entries:
            if entry.name not in seen:
                seen.add(entry.name)
                yield entry
        waiting.extend(one for one in _inside(inner, registry) if not {e.name for e in one.entries} <= seen)


def _inside(found: Resolved, registry: Registry) -> Iterator[Resolved]:
    for entry in found.entries:
        for text in entry.members:
            yield from (registry.find(item.name) for item in _flat(parse_pipeline(text)))


def _flat(items: Iterable[PipelineItem]) -> Iterator[PipelineItem]:
    for item in items:
        yield item
        yield from _flat(item.body or ())


def unknown_option(owner: str, option: str, value: object, members: Iterable[Entry]) -> OptionError | None:
    """Return the error for an option that only a member has, with its full spelling."""
    from onnx_passes.core.options import format_value

    having = [entry.name for entry in members if any(one.name == kebab(option) for one in entry.options)]
    if not having:
        return None
    written = [f"{owner}{{{name}.{kebab(option)}={format_value(value)}}}" for name in having[:3]]
    return OptionError(f"'{owner}' has no option '{option}', but a member has", hint=f"write {' or '.join(written)}")
