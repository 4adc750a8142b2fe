"""The source that a rule is made of, as a digest: what a proof of the rule holds for, and no longer if it changes.

Of a law that is its text, its conditions, and the functions that they call; of another rule, the class of its pass,
and the definition of the operator that it is about. To it belongs all that they name in turn, wherever it is defined,
except for the framework, which applies all rules alike: bases of passes, the editor, verification. What is attached to
an open interface from elsewhere is no part of it, so that another operator leaves the digest as it is.
Sources are read, not imported; documentation and comments do not count.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

SCOPE = (
    *(f"onnx_passes.{package}." for package in ("passes", "graph", "ops", "analysis", "datatypes")),
    *(f"onnx_passes.rewrite.{name}." for name in ("law_words", "refusal", "match", "choice", "leftovers")),
    *(f"onnx_passes.core.{name}." for name in ("walk", "measure")),
)
"""Whose definitions belong to a rule."""
_OUTSIDE = ("onnx_passes.graph.wording",)
"""Texts for people."""
_INTERFACE = "Interface"
"""The class of open interfaces: after a name and a description it is given the modules that attach to it."""
_LENGTH = 16
_PACKAGE = Path(__file__).parents[1]

Definition = tuple[str, str]
"""A module, and a name that it defines."""


@dataclass(frozen=True)
class _Module:
    """What a module defines, by name, what it imports, and what it does when it is imported."""

    definitions: dict[str, tuple[str, frozenset[str]]]
    imports: dict[str, Definition]
    effects: tuple[tuple[str, frozenset[str]], ...]


def digest_of(definitions: Iterable[Definition], *texts: str) -> str:
    """Return a digest of definitions with all that they name, and of texts."""
    found = closure(definitions)
    lines = [f"{module}.{name}\n{text}" for (module, name), text in sorted(found.items())]
    return hashlib.sha256("\n\0".join((*texts, *lines)).encode()).hexdigest()[:_LENGTH]


def closure(definitions: Iterable[Definition]) -> dict[Definition, str]:
    """Return the source of definitions and of all in scope that they name, directly or not."""
    found: dict[Definition, str] = {}
    waiting = list(definitions)
    while waiting:
        definition = waiting.pop()
        if definition in found or not in_scope(definition[0]):
            continue
        for module, text, named in _sources_of(definition):
            found[definition] = found.get(definition, "") + text
            waiting.extend(_resolved(module, named))
    return found


def in_scope(module: str) -> bool:
    """Tell whether the definitions of a module belong to rules."""
    return f"{module}.".startswith(SCOPE) and module not in _OUTSIDE


@functools.cache
def module_digest(module: str) -> str | None:
    """Return a digest of the file of a module, if there is one: while it is the same, so is all that it defines."""
    path = path_of(module)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()[:_LENGTH]


def _sources_of(definition: Definition) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield module, source and names of a definition, and of what adds to it when its module is imported."""
    place, name = definition
    module = _read(place)
    if module is None:
        return
    if name in module.definitions:
        yield place, *module.definitions[name]
        yield from ((place, text, named) for text, named in module.effects if name in named)
    elif name in module.imports:
        yield place, "", frozenset([name])
    elif (whole := _read(f"{place}.{name}")) is not None:
        yield f"{place}.{name}", "", frozenset(whole.definitions)


def _resolved(module: str, named: Iterable[str]) -> Iterator[Definition]:
    known = _read(module)
    assert known is not None
    for name in sorted(named):
        if name in known.definitions:
            yield module, name
        elif name in known.imports:
            yield known.imports[name]


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
    imports: dict[str, Definition] = {}
    effects: list[tuple[str, frozenset[str]]] = []
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        for part in ast.walk(statement):
            if isinstance(part, ast.ImportFrom):
                imports.update(_imported(part))
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


def _imported(statement: ast.ImportFrom) -> Iterator[tuple[str, Definition]]:
    for alias in statement.names:
        yield alias.asname or alias.name, (statement.module or "", alias.name)


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
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
            node.body = [each for each in node.body if not _is_text(each)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _INTERFACE:
            del node.args[2:]
    return _dump(statement)


def _dump(node: object) -> str:
    """Write a tree: ``ast.dump`` of later versions leaves out what is empty, and types have fields of their own."""
    if isinstance(node, ast.AST):
        fields = ((name, _dump(getattr(node, name, None))) for name in node._fields)
        return f"{type(node).__name__}({','.join(f'{name}={text}' for name, text in fields if text not in _EMPTY)})"
    if isinstance(node, list):
        return f"[{','.join(_dump(item) for item in cast(list[object], node))}]"
    return repr(node)


_EMPTY = ("None", "[]")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
