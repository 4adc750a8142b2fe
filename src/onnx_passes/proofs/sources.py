"""Digests of rules: a certificate holds for the source of a rule, and no longer once that changes.

The source of a law is its text, its conditions, the functions that they call, and the compiler that gives the text its
meaning; of another rule, the class of its pass and the definition of the operator that it is about. To it belongs all
that these name in turn, wherever it is defined, except for ``FRAMEWORK``. What is attached to an open interface from
elsewhere is left out, so that another operator leaves the digest as it is: it states a fact about an operator, on which
every rule relies alike. Sources are read, not imported; documentation, comments and the modules in which definitions
stand do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass


FRAMEWORK: Mapping[str, str] = {
    "onnx_passes.core": "bases and options of passes, errors: no rule computes with them",
    "onnx_passes.rewrite": "driver and editor put what is built in the place of what is matched, for all rules alike",
    "onnx_passes.verify": "checks applications of rules, and changes nothing",
}
"""Packages that rules name although they are no part of them, and why."""
_WORDS = ("onnx_passes", "onnx_passes.passes", "onnx_passes.graph.wording")
"""Modules of the same kind: names for users, registration, texts for people."""
PARTS = (
    *(f"onnx_passes.core.{name}" for name in ("measure", "walk")),
    *(f"onnx_passes.rewrite.{name}" for name in ("choice", "compile", "forks", "law_left", "law_right", "law_text")),
    *(f"onnx_passes.rewrite.{name}" for name in ("laws", "leftovers", "match", "node_rule", "patterns")),
    *(f"onnx_passes.rewrite.{name}" for name in ("onnxscript_patterns", "refusal", "rule")),
    "onnx_passes.verify.run",
)
"""Modules of the framework that decide what a rule matches and builds, and those that compute for rules."""
_INTERFACE = "Interface"
"""The class of open interfaces: after a name and a description it is given the modules that attach to it."""
_BESIDE = (ast.Import, ast.ImportFrom)
"""Statements of a body that name the place of a definition, which is followed instead."""
_LENGTH = 16
_ROUNDS = 3
_PACKAGE = Path(__file__).parents[1]

Definition = tuple[str, str]
"""A module, and a name that it defines."""


@dataclass(frozen=True)
class _Module:
    """A module: its definitions by name, its imports, and its effects when it is imported."""

    definitions: dict[str, tuple[str, frozenset[str]]]
    imports: dict[str, tuple[Definition, ...]]
    effects: tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True)
class _Source:
    """The text of a definition, and the definitions that it names, each with the name that it has there."""

    text: str
    named: tuple[tuple[str, Definition], ...]


def digest_of(definitions: Iterable[Definition], *texts: str) -> str:
    """Return a digest of definitions with all that they name, and of texts; wherever in the package these are."""
    labels = {_label(definition, _ROUNDS) for definition in closure(definitions)}
    starts = [_label(definition, _ROUNDS) for definition in definitions]
    return _hash(*texts, *starts, *sorted(labels))


def closure(definitions: Iterable[Definition]) -> dict[Definition, str]:
    """Return the source of definitions and of all in scope that they name, directly or not."""
    found: dict[Definition, str] = {}
    waiting = list(definitions)
    while waiting:
        definition = waiting.pop()
        source = None if definition in found or not in_scope(definition[0]) else _source(definition)
        if source is not None:
            found[definition] = source.text
            waiting.extend(target for _, target in source.named)
    return found


@functools.cache
def _label(definition: Definition, rounds: int) -> str:
    """Return a digest of a definition and of the names in it, followed for so many steps.

    The place of a definition does not count, so that it may move. Definitions of one label are alike as far as these
    steps go, and the labels of all that a rule reaches tell what each of them names.
    """
    place, name = definition
    source = _source(definition) if in_scope(place) else None
    if source is None:
        return name if place.partition(".")[0] == _PACKAGE.name else f"{place}.{name}"
    if not rounds:
        return _hash(source.text)
    return _hash(source.text, *(f"{local}={_label(target, rounds - 1)}" for local, target in source.named))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n\0".join(texts).encode()).hexdigest()[:_LENGTH]


@functools.cache
def _source(definition: Definition) -> _Source | None:
    """Return the source of a definition; None if it does not exist."""
    place, name = definition
    module = _read(place)
    if module is None:
        return None
    if name in module.definitions:
        # What is done to it when the module is imported belongs to it.
        parts = [module.definitions[name], *(effect for effect in module.effects if name in effect[1])]
        names = sorted(frozenset[str]().union(*(named for _, named in parts)))
        return _Source("".join(text for text, _ in parts), tuple(_named_in(place, names)))
    inner = _read(f"{place}.{name}" if name else place)
    path = f"{place}.{name}" if name else place
    return None if inner is None else _Source("", tuple((each, (path, each)) for each in sorted(inner.definitions)))


def _named_in(place: str, names: Iterable[str]) -> Iterator[tuple[str, Definition]]:
    """Yield the definitions of names of a module, if they are defined or imported there."""
    module = _read(place)
    assert module is not None
    for name in names:
        if name in module.definitions:
            yield name, (place, name)
        for target in module.imports.get(name, ()):
            yield name, _origin(target)


def _origin(definition: Definition) -> Definition:
    """Return where something is defined that modules import from each other."""
    place, name = definition
    module = _read(place) if in_scope(place) else None
    while module is not None and name not in module.definitions and name in module.imports:
        place, name = module.imports[name][-1]
        module = _read(place) if in_scope(place) else None
    return place, name


def in_scope(module: str) -> bool:
    """Return whether the definitions of a module belong to rules."""
    if not module.startswith(f"{_PACKAGE.name}.") or module in _WORDS:
        return False
    return _is_within(module, PARTS) or not _is_within(module, FRAMEWORK)


def _is_within(module: str, packages: Iterable[str]) -> bool:
    return f"{module}.".startswith(tuple(f"{package}." for package in packages))


@functools.cache
def module_digest(module: str) -> str | None:
    """Return a digest of the file of a module, if there is one: while it is the same, so is all that it defines."""
    path = path_of(module)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()[:_LENGTH]


@functools.cache
def path_of(module: str) -> Path | None:
    """Return the file of a module, if it has one; those of this package are found without an import."""
    root, _, rest = module.partition(".")
    if root == _PACKAGE.name and rest:
        path = _PACKAGE.joinpath(*rest.split("."))
        found = (path.with_suffix(".py"), path / "__init__.py")
        return next((each for each in found if each.is_file()), None)
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None or not spec.origin.endswith(".py") else Path(spec.origin)


@functools.cache
def _read(module: str) -> _Module | None:
    path = path_of(module)
    if path is None:
        return None
    definitions: dict[str, tuple[str, frozenset[str]]] = {}
    imports: dict[str, tuple[Definition, ...]] = {}
    effects: list[tuple[str, frozenset[str]]] = []
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Import | ast.ImportFrom):
                for name, target in _imported(part):
                    imports[name] = tuple(dict.fromkeys((*imports.get(name, ()), target)))
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        source = _plain(statement), _named(statement)
        names = list(_defined(statement))
        for name in names:
            text, named = definitions.get(name, ("", frozenset[str]()))
            definitions[name] = text + source[0], named | source[1]
        if not names and not _is_text(statement):
            effects.append(source)
    return _Module(definitions, imports, tuple(effects))


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Definition]]:
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, (statement.module or "", alias.name)
        else:
            yield (alias.asname, (alias.name, "")) if alias.asname else (alias.name.partition(".")[0], (alias.name, ""))


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    if isinstance(statement, ast.If | ast.Try):
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.stmt):
                yield from _defined(part)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        for node in () if target is None else ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _named(statement: ast.stmt) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _plain(statement: ast.stmt) -> str:
    """Write a statement without documentation, the same way in all versions of Python."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [each for each in node.body if not isinstance(each, _BESIDE) and not _is_text(each)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _INTERFACE:
            del node.args[2:]
    return _dump(statement)


def _dump(node: object) -> str:
    """Write a tree in one form for all versions, since ``ast.dump`` of later ones leaves out empty fields."""
    if isinstance(node, ast.AST):
        fields = ((name, _dump(getattr(node, name, None))) for name in node._fields)
        return f"{type(node).__name__}({','.join(f'{name}={text}' for name, text in fields if text not in _EMPTY)})"
    if isinstance(node, list):
        return f"[{','.join(_dump(item) for item in cast(list[object], node))}]"
    return repr(node)


_EMPTY = ("None", "[]")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


_CALLED = re.compile(r"(\w+)\(")


class LawText(Protocol):
    """A rule as text, ``before → after``."""

    @property
    def rule_name(self) -> str:
        """Return the name of the rule."""
        ...

    @property
    def text(self) -> str:
        """Return both sides."""
        ...

    @property
    def when(self) -> Sequence[Any]:
        """Return the conditions."""
        ...

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions that it may call."""
        ...

    @property
    def kinds(self) -> Mapping[str, Sequence[str]]:
        """Return the operators of each name."""
        ...

    @property
    def commute(self) -> bool:
        """Return whether operands may be exchanged."""
        ...

    @property
    def forks(self) -> str:
        """Return how the rule treats matched values that are used elsewhere."""
        ...


@runtime_checkable
class _Lawful(Protocol):
    """A pass that is a table of laws."""

    def chosen(self) -> Sequence[LawText]:
        """Return the laws that the options ask for."""
        ...


@runtime_checkable
class Reaching(Protocol):
    """A pass whose rules reach definitions that no source names, such as rules registered for an operator."""

    def reaches(self, rule: str) -> Sequence[Definition]:
        """Return the definitions that a rule reaches by its name."""
        ...


def _reached(pass_: Pass, rule: str) -> Sequence[Definition]:
    return pass_.reaches(rule.partition("#")[0]) if isinstance(pass_, Reaching) else ()


def sources_of(pass_: Pass, rules: Sequence[str]) -> dict[str, str]:
    """Map rules of a pass, with equal names numbered, to the digest of their definitions."""
    promise = ",".join([*(claim.kind for claim in pass_.claims), *pass_.fast_math])
    if not isinstance(pass_, _Lawful):
        return {rule: digest_of([definition_of(pass_), *_reached(pass_, rule)], promise) for rule in rules}
    laws = pass_.chosen()
    names = numbered([law.rule_name for law in laws])
    return {name: _digest(law, promise) for name, law in zip(names, laws, strict=True) if name in rules}


def rules_named(pass_: Pass, rule: str) -> int:
    """Count the laws of a pass that have a name; of other rules one digest covers all, so that one is enough."""
    return sum(law.rule_name == rule for law in pass_.chosen()) if isinstance(pass_, _Lawful) else 1


def modules_of(pass_: Pass, rules: Sequence[str]) -> dict[str, str]:
    """Map the modules that rules of a pass are from to digests of their files."""
    modules = {module for module, _ in closure(definitions_of(pass_, rules))}
    return {module: digest for module in sorted(modules) if (digest := module_digest(module)) is not None}


def definitions_of(pass_: Pass, rules: Sequence[str]) -> list[Definition]:
    """List the definitions that rules of a pass start from."""
    laws = pass_.chosen() if isinstance(pass_, _Lawful) else ()
    called = [each for law in laws for each in (*called_by(law), _compiler(law))]
    return [definition_of(pass_), *called, *(each for rule in rules for each in _reached(pass_, rule))]


def definition_of(pass_: Pass) -> Definition:
    """Return where the class of a pass is defined."""
    return type(pass_).__module__, type(pass_).__qualname__


def called_by(law: LawText) -> list[Definition]:
    """List the functions that a law calls."""
    texts = [law.text, *(condition.text for condition in law.when)]
    names = {name for text in texts for name in _CALLED.findall(text)} & set(law.functions)
    functions = [law.functions[name] for name in sorted(names)]
    return [(function.__module__, function.__name__) for function in functions]


def _digest(law: LawText, promise: str) -> str:
    kinds = [f"{name}={','.join(law.kinds[name])}" for name in sorted(law.kinds) if f"{name}(" in law.text]
    options = (f"commute={law.commute}", f"forks={law.forks}")
    texts = (law.text, *(condition.text for condition in law.when), *kinds, *options)
    return digest_of([*called_by(law), _compiler(law)], promise, *texts)


def _compiler(law: LawText) -> Definition:
    """Return the class that makes a rule of the text of a law."""
    return type(law).__module__, type(law).__qualname__


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names of the rules of a pass, with repeated ones numbered: the second one is ``rule#2``."""
    return [f"{name}#{before + 1}" if (before := names[:at].count(name)) else name for at, name in enumerate(names)]
