"""What is known of operators: interfaces that rooms declare, and that anybody implements for any operator.

A room that asks something of operators declares it once, as an ``Interface``; who knows the answer for an operator
attaches it there, by name and domain. The modules of built-in implementations are imported when somebody first asks,
as are those that installed packages offer in the entry-point group ``onnx_passes.operators``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import onnx_ir as ir

from onnx_passes.core.errors import RegistrationError

T = TypeVar("T")
Key = tuple[str, str]
"""Domain and name of an operator."""

PLUGINS = "onnx_passes.operators"
"""Entry-point group: each entry names a module that brings operators when imported."""
STANDARD = ("",)
"""The domain of ONNX itself."""


class Operator:
    """How an operator is called, and where it is found."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    domains: ClassVar[tuple[str, ...]]
    implements: ClassVar[tuple[str, ...]] = ()
    """Names of interfaces that the class itself answers."""


class Interface(Generic[T]):
    """Something that may be known of an operator: a typed table from operators to what is known of them.

    ``doc`` says in one line what it is; ``homes`` are the modules that attach what is built in.
    """

    def __init__(self, name: str, doc: str, *homes: str) -> None:
        self.name = name
        self.doc = doc
        self._homes = homes
        self._table: dict[Key, T] = {}
        self._complete = False
        INTERFACES[name] = self

    def of(self, *operators: str | type[Operator], domains: Iterable[str] = STANDARD) -> Callable[[T], T]:
        """Attach what is decorated to operators: names in ``domains``, or definitions, which know their own."""

        def attach(found: T) -> T:
            for operator in operators:
                if isinstance(operator, str):
                    self.attach({operator: found}, domains=domains)
                else:
                    self.attach(dict.fromkeys((operator.name, *operator.aliases), found), domains=operator.domains)
            return found

        return attach

    def attach(self, table: Mapping[str, T], *, domains: Iterable[str] = STANDARD) -> None:
        """Attach what is known of several operators, by their names."""
        for domain in domains:
            for name, found in table.items():
                taken = self._table.get((domain, name))
                if taken is not None and not _is_again(taken, found):
                    raise RegistrationError(
                        f"'{self.name}' of {domain or 'ai.onnx'}::{name} is there twice: {taken!r} and {found!r}",
                        hint="remove one of them, or give the operator a domain of its own",
                    )
                self._table[domain, name] = found

    def get(self, operator: ir.Node | Key) -> T | None:
        """Return what is known of the operator of a node, or of one by domain and name."""
        if not self._complete:
            self._load()
        return self._table.get((operator.domain, operator.op_type) if isinstance(operator, ir.Node) else operator)

    def named(self, name: str, domain: str = "") -> T | None:
        """Return what is built in, or attached so far, for an operator; passes ask while they are being imported."""
        if self._homes:
            self._load_homes()
        return self._table.get((domain, name))

    def revise(self, name: str, domain: str, revision: Callable[[T | None], T]) -> T:
        """Attach something made of what is attached so far, in its place."""
        found = self._table[domain, name] = revision(self._table.get((domain, name)))
        return found

    def table(self) -> Mapping[Key, T]:
        """Return all that is known, by domain and name."""
        if not self._complete:
            self._load()
        return self._table

    def standard(self) -> dict[str, T]:
        """Return what is built in for operators of ONNX itself, by name."""
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
"""All interfaces that were declared so far, by name."""
_waiting = [PLUGINS]


def load_plugins() -> None:
    """Import the modules in which installed packages bring operators; one that fails is left out, with a warning."""
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
    """List those of the interfaces declared so far that are implemented for an operator."""
    keys = {(domain, name) for domain in operator.domains for name in (operator.name, *operator.aliases)}
    return [
        interface
        for interface in tuple(INTERFACES.values())
        if interface.name in operator.implements or not keys.isdisjoint(interface.table())
    ]


def _is_again(old: object, new: object) -> bool:
    """Tell a file imported again, or a notebook cell run again, from two answers to one question."""
    if old == new:
        return True
    places = [(getattr(item, "__module__", None), getattr(item, "__qualname__", None)) for item in (old, new)]
    return places[0] == places[1] and places[0][1] is not None
