"""Knowledge about operators: interfaces that packages declare, and implementations for any operator.

A package declares a question about operators once, as an ``Interface``; implementations are attached by name and
domain. The modules of built-in implementations are imported on first use, as are the modules of installed packages in
the entry-point group ``onnx_passes.operators``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import onnx_ir as ir

from onnx_passes.core.errors import RegistrationError

T = TypeVar("T")
Key = tuple[str, str]
"""Domain and name of an operator."""

PLUGINS = "onnx_passes.operators"
"""Entry-point group: each entry names a module that attaches operators when it is imported."""
_PACKAGE = __name__.partition(".")[0]
STANDARD = ("",)
"""The domain of ONNX itself."""


class Operator:
    """The name and domains of an operator."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    domains: ClassVar[tuple[str, ...]]
    implements: ClassVar[tuple[str, ...]] = ()
    """Names of interfaces that the class itself implements."""


class Interface(Generic[T]):
    """A typed table from operators to the implementations of one interface.

    ``doc`` describes the interface in one line; ``homes`` are the modules of built-in implementations.
    """

    def __init__(self, name: str, doc: str, *homes: str) -> None:
        self.name = name
        self.doc = doc
        self._homes = homes
        self._table: dict[Key, T] = {}
        self._outside: dict[Key, str] = {}
        self._complete = False
        INTERFACES[name] = self

    def of(self, *operators: str | type[Operator], domains: Iterable[str] = STANDARD) -> Callable[[T], T]:
        """Attach the decorated object to operators: names in ``domains``, or definitions, which have their own."""

        def attach(found: T) -> T:
            for operator in operators:
                if isinstance(operator, str):
                    self.attach({operator: found}, domains=domains)
                else:
                    self.attach(dict.fromkeys((operator.name, *operator.aliases), found), domains=operator.domains)
            return found

        return attach

    def attach(self, table: Mapping[str, T], *, domains: Iterable[str] = STANDARD) -> None:
        """Attach implementations for several operators, by name."""
        for domain in domains:
            for name, found in table.items():
                taken = self._table.get((domain, name))
                if taken is not None and not _is_again(taken, found):
                    raise RegistrationError(
                        f"'{self.name}' of {domain or 'ai.onnx'}::{name} is attached twice: {taken!r} and {found!r}",
                        hint="remove one of them, or give the operator a domain of its own",
                    )
                self._table[domain, name] = found
                self._note_origin((domain, name), found)

    def origin(self, operator: ir.Node | Key) -> str:
        """Return the module outside of this package that attached the implementation; empty if it is built in."""
        if not self._outside:
            return ""
        return self._outside.get((operator.domain, operator.op_type) if isinstance(operator, ir.Node) else operator, "")

    def _note_origin(self, key: Key, found: T) -> None:
        """Record the module of an attached function or class, or of the code that attaches it, if outside."""
        for module in (_module_outside(), str(getattr(found, "__module__", _PACKAGE))):
            if module.partition(".")[0] != _PACKAGE:
                self._outside[key] = module

    def get(self, operator: ir.Node | Key) -> T | None:
        """Return the implementation for a node, or for an operator by domain and name; None if there is none."""
        if not self._complete:
            self._load()
        return self._table.get((operator.domain, operator.op_type) if isinstance(operator, ir.Node) else operator)

    def named(self, name: str, domain: str = "") -> T | None:
        """Return the built-in or already attached implementation for an operator; for passes during their import."""
        if self._homes:
            self._load_homes()
        return self._table.get((domain, name))

    def revise(self, name: str, domain: str, revision: Callable[[T | None], T]) -> T:
        """Replace an implementation by a revision of it."""
        found = self._table[domain, name] = revision(self._table.get((domain, name)))
        self._note_origin((domain, name), found)
        return found

    def table(self) -> Mapping[Key, T]:
        """Return all implementations, by domain and name."""
        if not self._complete:
            self._load()
        return self._table

    def standard(self) -> dict[str, T]:
        """Return the built-in implementations for operators of ONNX itself, by name."""
        self._load_homes()
        return {name: found for (domain, name), found in self._table.items() if not domain}

    def _load(self) -> None:
        self._load_homes()
        load_plugins()
        self._complete = True

    def _load_homes(self) -> None:
        homes, self._homes = self._homes, ()
        for home in homes:
            importlib.import_module(home)


INTERFACES: dict[str, Interface[Any]] = {}
"""All declared interfaces, by name."""
_waiting = [PLUGINS]


def load_plugins() -> None:
    """Import the modules of operators of installed packages; a module that fails is skipped with a warning."""
    if not _waiting:
        return
    for plugin in importlib.metadata.entry_points(group=_waiting.pop()):
        try:
            plugin.load()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, others must go on
            warnings.warn(
                f"operators of '{plugin.name}' ({plugin.value}) are left out: {error}; "
                "repair or uninstall the package that offers them",
                stacklevel=2,
            )


def interfaces_of(operator: type[Operator]) -> list[Interface[Any]]:
    """Return the declared interfaces with an implementation for an operator."""
    keys = {(domain, name) for domain in operator.domains for name in (operator.name, *operator.aliases)}
    return [
        interface
        for interface in tuple(INTERFACES.values())
        if interface.name in operator.implements or not keys.isdisjoint(interface.table())
    ]


def _module_outside() -> str:
    """Return the module whose code attaches something to an interface."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return _PACKAGE if frame is None else str(frame.f_globals.get("__name__"))


def _is_again(old: object, new: object) -> bool:
    """Return whether an implementation is the same after its module was imported or its cell run again."""
    if old == new:
        return True
    places = [(getattr(item, "__module__", None), getattr(item, "__qualname__", None)) for item in (old, new)]
    return places[0] == places[1] and places[0][1] is not None
