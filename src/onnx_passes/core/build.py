"""Construction of pass objects from names, pipeline text, classes and objects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.compose import ComposePass, Group, PassLike, Skip
from onnx_passes.core.defaults import Defaults
from onnx_passes.core.errors import OptionError, UnknownPassError, UsageError
from onnx_passes.core.foreign import ForeignPass
from onnx_passes.core.members import MemberOptions, Options, members_of, spelt_options, split, unknown_option
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.options import fields_of, parse_options
from onnx_passes.core.pipeline import PipelineItem, PipelineSyntaxError, parse_pipeline
from onnx_passes.core.registry import REGISTRY, Registry, Resolved
from onnx_passes.core.skipping import Skipping


def collect(
    what: PassLike | Iterable[PassLike], *, defaults: Defaults | None = None, registry: Registry = REGISTRY
) -> list[Pass]:
    """Resolve names, groups, pipeline text, classes and objects to pass objects."""
    return PassBuilder(defaults, registry).collect(what)


class PassBuilder:
    """Constructs pass objects, and records their names.

    Options in pipeline text override the configuration, which overrides the options that a sequence of the collection
    sets for its members. Options for members given to a sequence override all of these; the innermost sequence wins.
    """

    def __init__(self, defaults: Defaults | None = None, registry: Registry = REGISTRY) -> None:
        self.registry = registry
        self.defaults = {
            fold(name): spelt_options(name, given.items(), registry) for name, given in (defaults or {}).items()
        }
        self._open: list[str] = []
        self._scopes: list[MemberOptions] = []
        self._made: list[str] = []
        self._skipping: list[Skipping] = []

    @property
    def made(self) -> set[str]:
        """Return the folded names of all passes and groups that were constructed from names or classes."""
        return set(map(fold, self._made))

    @contextlib.contextmanager
    def skipping(self, pass_: ComposePass) -> Generator[None]:
        """Skip the passes that a sequence skips while its members are constructed and planned."""
        skipping = pass_.skipping if isinstance(pass_, Skip) else None
        if skipping is None:
            yield
            return
        self._skipping.append(skipping)
        try:
            yield
        finally:
            self._skipping.pop()
        skipping.refuse_unfound()

    def leaves_out(self, *names: str) -> bool:
        """Return whether a pass or group with these names is skipped here."""
        found = [skipping.leaves_out(names) for skipping in self._skipping]
        return any(found)

    def collect(self, what: PassLike | Iterable[PassLike]) -> list[Pass]:
        """Resolve the argument of a user or of a declaration."""
        several = isinstance(what, Sequence | Set | Iterator) and not isinstance(what, str)
        items = cast(Iterable[PassLike], what) if several else [what]
        return [pass_ for item in items for pass_ in self._resolve(item)]

    def collect_all(self, what: Iterable[PassLike]) -> list[Pass]:
        """Resolve the passes that a pass needs, including skipped ones."""
        skipping, self._skipping = self._skipping, []
        try:
            return self.collect(what)
        finally:
            self._skipping = skipping

    def _resolve(self, what: object, *, own: bool = False) -> list[Pass]:
        """Construct passes from one argument; ``own`` is set for the ``passes`` of a sequence."""
        if isinstance(what, str):
            return [made for item in parse_pipeline(what) for made in self._item(item, what, own=own)]
        if isinstance(what, type) and issubclass(what, ir.passes.PassBase):
            found = self.registry.found_of(what)
            if found is not None:
                return self._unless_skipped(found, PipelineItem(found.name), found.name, own=own)
            what = what()
        if isinstance(what, ir.passes.PassBase):
            pass_ = what if isinstance(what, Pass) else ForeignPass.adapt(what)
            return [] if self.leaves_out(pass_.name) else [pass_]
        adapted = self.registry.adapt(cast(object, what))
        if adapted is None:
            raise UsageError(f"{what!r} is not a pass", hint="give a name, pipeline text, or a pass as class or object")
        return [adapted()]

    def _item(self, item: PipelineItem, text: str, *, own: bool) -> list[Pass]:
        try:
            return self._unless_skipped(self.registry.find(item.name), item, text, own=own)
        except OptionError as error:
            if own:  # The error is in the text of an enclosing pipeline.
                raise
            raise PipelineSyntaxError(error.what, text, item.at, hint=error.hint) from None
        except UnknownPassError as error:
            raise PipelineSyntaxError(error.what, text, item.at, hint=error.hint) from None

    def _unless_skipped(self, found: Resolved, item: PipelineItem, text: str, *, own: bool) -> list[Pass]:
        """Construct a pass or group; return an empty list if it, or each of its members, is skipped."""
        if self.leaves_out(found.name, *(() if found.is_group else (found.entries[0].name,))):
            return []
        try:
            made = (self._group if found.is_group else self._one)(found, item, text, own=own)
        except _NothingLeftError:
            return []
        for skipping in self._skipping:
            skipping.leave_out_rules(made)
        return [made]

    def _group(self, found: Resolved, item: PipelineItem, text: str, *, own: bool) -> Pass:
        options, for_members = split(self._given(found, item, own=own))
        for option, value in options.items():
            raise unknown_option(found.name, option, value, found.entries) or OptionError(
                f"group '{found.name}' has no options", hint="give them to its members"
            )
        if item.body is not None:
            raise _unexpected_body(f"group '{found.name}'", item, text)
        return Group(label=found.name, **self._members(found, [entry.name for entry in found.entries], for_members))

    def _one(self, found: Resolved, item: PipelineItem, text: str, *, own: bool) -> Pass:
        (entry,) = found.entries
        cls: Any = self.registry.load(entry)
        given = self._given(found, item, own=own)
        inside: Sequence[object] = getattr(cls, "passes", ()) if cls.takes_body else ()
        options, for_members = split(given) if cls.takes_body else (given, {})
        for option in options.keys() - fields_of(cls).keys():
            members = members_of(found, self.registry, item.body or ())
            raised = unknown_option(found.name, option, options[option], members)
            if raised is not None:
                raise raised
        arguments = parse_options(cls, options, owner=entry.name)
        if item.body is not None:
            if not cls.takes_body or inside:
                raise _unexpected_body(f"pass '{entry.name}'", item, text)
            arguments |= self._nested(found, item.body, text, for_members, arguments, own=own)
        elif inside and not cls.writes_init and entry.name not in self._open:
            arguments |= self._members(found, inside, for_members)
        elif for_members:
            raise OptionError(f"'{entry.name}' makes its members itself", hint="give them their options one by one")
        elif cls.takes_body and not inside:
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

    def _given(self, found: Resolved, item: PipelineItem, *, own: bool) -> Options:
        """Merge the options of a pass from all sources, in increasing precedence."""
        name = found.name if found.is_group else found.entries[0].name
        self._made.append(name)
        written = spelt_options(name, item.options, self.registry)
        configured = self.defaults.get(fold(name), {})
        scoped = {option: value for scope in self._scopes for option, value in scope.take(name).items()}
        preset = {} if found.is_group else _preset_options(found)
        if own:
            return {**preset, **written, **configured, **scoped}
        return {**configured, **preset, **written, **scoped}

    def _nested(
        self,
        found: Resolved,
        body: tuple[PipelineItem, ...],
        text: str,
        given: Options,
        arguments: Mapping[str, Any],
        *,
        own: bool,
    ) -> dict[str, Any]:
        """Construct the nested members of a sequence, without skipped ones."""
        cls = self.registry.load(found.entries[0])

        def make() -> Iterable[Pass]:
            return (made for inner in body for made in self._item(inner, text, own=own))

        if not issubclass(cls, Skip):
            return {"body": self._inside(found, given, make, body)}
        skipping = Skipping(arguments.get("names", ()))
        self._skipping.append(skipping)
        try:
            return {"body": self._inside(found, given, make, body), "skipping": skipping}
        finally:
            self._skipping.pop()

    def _inside(
        self, found: Resolved, given: Options, make: Callable[[], Iterable[Pass]], body: tuple[PipelineItem, ...] = ()
    ) -> tuple[Pass, ...]:
        """Construct the members of a sequence, each with the options that the sequence has for it."""
        scope = MemberOptions(found.name, given)
        self._scopes.append(scope)
        self._open.append(found.name)
        passes = tuple(make())
        self._open.pop()
        self._scopes.pop()
        scope.refuse_untaken(entry.name for entry in members_of(found, self.registry, body))
        if not passes and self._skipping and not issubclass(self.registry.load(found.entries[0]), Skip):
            raise _NothingLeftError
        return passes

    def _members(self, found: Resolved, inside: Iterable[object], given: Options) -> dict[str, Any]:
        """Construct the own members of a sequence, and return the options that its text needs to reproduce them."""
        mark = len(self._made)
        passes = self._inside(found, given, lambda: (p for one in inside for p in self._resolve(one, own=True)))
        names = dict.fromkeys(self._made[mark:])
        told = {f"{name}.{key}": value for name in names for key, value in self.defaults.get(fold(name), {}).items()}
        for scope in self._scopes:
            told |= {f"{name}.{key}": value for name in names for key, value in scope.of(name).items()}
        return {"body": passes, "member_options": told | given}


class _NothingLeftError(Exception):
    """All members of a sequence are skipped."""


def _unexpected_body(owner: str, item: PipelineItem, text: str) -> PipelineSyntaxError:
    return PipelineSyntaxError(f"{owner} takes no nested pipeline", text, item.at, hint="write a comma between passes")


def _preset_options(found: Resolved) -> Options:
    if not found.preset:
        return {}
    written = parse_pipeline(f"{found.entries[0].name}{{{found.preset}}}")[0].options
    return {kebab(option): value for option, value in written}
