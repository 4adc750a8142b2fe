"""Changed functions in place of those that are loaded, so that a mutant costs no import of its own."""

from __future__ import annotations

import ast
import difflib
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

Key = tuple[str, str, int]


def key_of(code: CodeType) -> Key:
    """Return what tells a function from all others: its file, qualified name and first line."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


@dataclass(frozen=True)
class Patch:
    """Functions to replace, outermost first, and the one constant of the module that changes, if one does."""

    functions: tuple[tuple[CodeType, CodeType], ...]
    """All changed functions with those that hold them: what is loaded, and what replaces it."""
    changed: tuple[CodeType, ...]
    """The loaded functions whose own code differs."""
    constant: tuple[str, str] | None = None
    """The name of a constant of the module and the source of its new value."""


def patch_of(path: Path, source: str) -> Patch | None:
    """Compare the file with a changed source; None if anything else than functions and one constant differs."""
    before = path.read_text()
    old, new = (compile(text, str(path), "exec") for text in (before, source))
    functions: list[tuple[CodeType, CodeType]] = []
    changed: list[CodeType] = []
    constant: tuple[str, str] | None = None
    for chain in _differences(old, new):
        inner = [(a, b) for a, b in chain if a.co_flags & CO_OPTIMIZED]
        if not chain[-1][0].co_flags & CO_OPTIMIZED:
            constant = _constant(before, source) if len(chain) == 1 else None
            if constant is None:
                return None
            continue
        functions.extend(inner)
        changed.append(chain[-1][0])
    if any(a.co_freevars != b.co_freevars for a, b in functions):
        return None
    return Patch(tuple(functions), tuple(changed), constant)


def changed_lines(path: Path, source: str) -> frozenset[int]:
    """Return the lines of the statements that differ; none if something is only added, or if they are unknown."""
    text = path.read_text()
    before, after = text.splitlines(), source.splitlines()
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = [(first + 1, last) for kind, first, last, _, _ in blocks if kind != "equal"]
    if any(first > last for first, last in changed):
        return frozenset()
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt) or isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        body = getattr(node, "body", None)
        # Of a compound statement that is its head.
        end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        if any(first <= end and node.lineno <= last for first, last in changed):
            found.update(range(node.lineno, end + 1))
    return frozenset(found)


def _differences(old: CodeType, new: CodeType) -> Iterator[list[tuple[CodeType, CodeType]]]:
    """Yield the chains from the module to the innermost code that differs."""
    waiting = [[(old, new)]]
    while waiting:
        chain = waiting.pop()
        nested = [[const for const in code.co_consts if isinstance(const, CodeType)] for code in chain[-1]]
        paired = [a.co_qualname for a in nested[0]] == [b.co_qualname for b in nested[1]]
        if not paired or _own(chain[-1][0]) != _own(chain[-1][1]):
            yield chain
        if paired:
            waiting.extend([*chain, pair] for pair in zip(*nested, strict=True))


def _own(code: CodeType) -> object:
    consts = [(type(const), repr(const)) for const in code.co_consts if not isinstance(const, CodeType)]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, consts, names, code.co_exceptiontable, code.co_flags, code.co_argcount


def _constant(before: str, after: str) -> tuple[str, str] | None:
    """Return the name and the new value of the one constant of a module that differs."""
    old, new = (ast.parse(text).body for text in (before, after))
    if len(old) != len(new):
        return None
    differing = [
        (a, b)
        for a, b in zip(old, new, strict=True)
        if ast.dump(a) != ast.dump(b) and not isinstance(a, (ast.FunctionDef, ast.ClassDef))
    ]
    match differing:
        case [(ast.Assign(targets=[ast.Name(name)]), ast.Assign(targets=[ast.Name(again)], value=value))]:
            pass
        case [(ast.AnnAssign(target=ast.Name(name)), ast.AnnAssign(target=ast.Name(again), value=ast.expr() as value))]:
            pass
        case _:
            return None
    return (name, ast.unparse(value)) if name == again else None


class Loaded:
    """The functions of all loaded modules of a folder."""

    def __init__(self, folder: Path) -> None:
        self._functions: dict[Key, list[FunctionType]] = {}
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(folder)):
                self._functions.setdefault(key_of(each.__code__), []).append(each)

    def apply(self, patch: Patch, module: ModuleType) -> bool:
        """Replace functions and the constant; returns whether all of them were found."""
        found = True
        for old, new in patch.functions:
            functions = self._functions.get(key_of(old), ())
            for function in functions:
                function.__code__ = new
            is_outermost = "<locals>" not in old.co_qualname
            found = found and (bool(functions) or not is_outermost)
        if patch.constant is not None:
            found = _assign(module, *patch.constant) and found
        return found


def _assign(module: ModuleType, name: str, source: str) -> bool:
    """Give a constant its new value wherever modules hold it under this name."""
    if not hasattr(module, name):
        return False
    old, new = getattr(module, name), eval(source, dict(vars(module)))
    for each in list(sys.modules.values()):
        if getattr(each, "__dict__", {}).get(name, each) is old:
            setattr(each, name, new)
    return True
