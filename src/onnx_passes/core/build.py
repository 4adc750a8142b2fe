"""From names, pipeline text, classes and objects to pass objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import cast

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.compose import Group, PassLike
from onnx_passes.core.errors import OptionError, UnknownPassError, UsageError
from onnx_passes.core.foreign import ForeignPass
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.options import parse_options
from onnx_passes.core.pipeline import Item, PipelineSyntaxError, parse_pipeline
from onnx_passes.core.registry import REGISTRY, Entry, Registry

Defaults = Mapping[str, Mapping[str, object]]
"""Options from the configuration, by pass name; pipeline text overrides them."""


def collect(
    what: PassLike | Iterable[PassLike], *, defaults: Defaults | None = None, registry: Registry = REGISTRY
) -> list[Pass]:
    """Resolve names, groups, pipeline text, classes and objects to pass objects."""
    several = isinstance(what, Sequence | Set | Iterator) and not isinstance(what, str)
    builder = _Builder(registry, defaults or {})
    items = cast(Iterable[PassLike], what) if several else [what]
    return [pass_ for item in items for pass_ in builder.resolve(item)]


class _Builder:
    def __init__(self, registry: Registry, defaults: Defaults) -> None:
        self.registry = registry
        self.defaults = {fold(name): options for name, options in defaults.items()}

    def resolve(self, what: object) -> list[Pass]:
        if isinstance(what, str):
            return [self.item(item, what) for item in parse_pipeline(what)]
        if isinstance(what, type) and issubclass(what, ir.passes.PassBase):
            what = what()
        if isinstance(what, ir.passes.PassBase):
            return [what if isinstance(what, Pass) else ForeignPass.adapt(what)]
        adapted = self.registry.adapt(cast(object, what))
        if adapted is None:
            raise UsageError(f"{what!r} is no pass", hint="give a name, pipeline text, or a pass as class or object")
        return [adapted()]

    def item(self, item: Item, text: str) -> Pass:
        try:
            found = self.registry.find(item.name)
            if found.is_group:
                return self.group(found.name, found.entries, item, text)
            return self.one(found.entries[0], found.preset, item, text)
        except (UnknownPassError, OptionError) as error:
            raise PipelineSyntaxError(error.what, text, item.at, hint=error.hint) from None

    def group(self, name: str, entries: tuple[Entry, ...], item: Item, text: str) -> Pass:
        if item.options:
            raise OptionError(f"group '{name}' has no options", hint="give them to its members")
        if item.body is not None:
            raise _unexpected_body(f"group '{name}'", item, text)
        return Group(label=name, body=tuple(self.one(entry, "", Item(entry.name), name) for entry in entries))

    def one(self, entry: Entry, preset: str, item: Item, text: str) -> Pass:
        cls = self.registry.load(entry)
        layers = (self.defaults.get(fold(entry.name), {}), _preset_options(entry, preset), dict(item.options))
        options = {kebab(name): value for layer in layers for name, value in layer.items()}
        arguments = parse_options(cls, options, owner=entry.name)
        if item.body is not None:
            if not cls.takes_body or getattr(cls, "passes", ()):
                raise _unexpected_body(f"pass '{entry.name}'", item, text)
            arguments["body"] = tuple(self.item(inner, text) for inner in item.body)
        elif cls.takes_body and not getattr(cls, "passes", ()):
            raise PipelineSyntaxError(
                f"pass '{entry.name}' needs a nested pipeline",
                text,
                item.at,
                hint=f"as in {entry.name}(cleanup)",
            )
        try:
            return cls(**arguments)
        except (TypeError, ValueError) as error:
            raise UsageError(f"pass '{entry.name}' cannot be set up: {error}") from error


def _unexpected_body(owner: str, item: Item, text: str) -> PipelineSyntaxError:
    return PipelineSyntaxError(f"{owner} takes no nested pipeline", text, item.at, hint="write a comma between passes")


def _preset_options(entry: Entry, preset: str) -> dict[str, object]:
    return dict(parse_pipeline(f"{entry.name}{{{preset}}}")[0].options) if preset else {}
