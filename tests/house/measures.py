"""Measure the package: its modules, imports, class names, the operators that it spells, the words of its docstrings.

`python -m tests.house.measures` writes the numbers to `limits.toml` next to this file; `test_limits.py` fails where a
number is greater than there. `--show MEASURE` lists the items that a measure counts.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = Path(__file__).with_name("limits.toml")
PACKAGE = "onnx_passes"
_SHORT, _FULL = 120, 25
_SPELLED = 4
"""Modules that may spell an operator beside those of `ops` and `passes`."""
_OPERATORS = ("onnx_passes.ops", "onnx_passes.passes")
_TABLE = 3
_HEADLESS = re.compile(r"\b(?:what|who|whoever|whatever|those that|such as are)\b", re.IGNORECASE)
_DIALECT = re.compile(
    r"^(?:Say|Tell|Let|Take in|Get ready|Look at|See)\b|\bnothing (?:if|where|for)\b|\bas it came\b|\bin the place of\b"
    r"|\bwhere (?:it|they) stands?\b|\bby turns\b|\bstands? for\b|\bis no [a-z]+\b"
)


@dataclass(frozen=True)
class Module:
    """A module of the package: its name, its lines, its syntax tree."""

    name: str
    lines: int
    tree: ast.Module

    @property
    def folder(self) -> str:
        """Return the package that holds it."""
        return self.name.rpartition(".")[0]


@functools.cache
def modules() -> Mapping[str, Module]:
    """Return the modules of the package by name; packages are named as their folder."""
    found: dict[str, Module] = {}
    for path in sorted((ROOT / "src" / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, len(text.splitlines()), ast.parse(text))
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules of the package that an import statement names."""
    known = modules()
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module in known:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name if name in known else node.module for name in inner)


@functools.cache
def importers() -> Mapping[str, set[str]]:
    """Return the modules that import each module, wherever in their text."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        for node in ast.walk(module.tree):
            for name in _imported(node):
                found[name].add(module.name)
    return found


def _at_import(tree: ast.Module) -> set[str]:
    """Return the modules that are imported when a module is."""
    return {name for node in tree.body for name in _imported(node)}


def large_folders() -> list[str]:
    """List the folders of more than 25 modules."""
    counts = Counter(module.folder for module in modules().values())
    return [f"{folder}: {count} modules" for folder, count in sorted(counts.items()) if count > _FULL]


def paragraphs() -> list[str]:
    """List the modules under 120 lines that one module of the same folder alone imports."""
    found: list[str] = []
    for module in modules().values():
        users = importers().get(module.name, set())
        if module.lines < _SHORT and len(users) == 1:
            user = modules()[next(iter(users))]
            if user.folder == module.folder and user.name != module.folder:
                found.append(f"{module.name}: {module.lines} lines, imported by {user.name}")
    return found


def shared_class_names() -> list[str]:
    """List the names of public classes that several modules define."""
    where: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].add(module.name)
    return [f"{name}: {', '.join(sorted(found))}" for name, found in sorted(where.items()) if len(found) > 1]


def longest_chain() -> list[str]:
    """List the modules of the longest chain of imports."""
    chains: dict[str, list[str]] = {}
    sys.setrecursionlimit(10_000)

    def chain(name: str, above: frozenset[str]) -> list[str]:
        if name not in chains:
            below = [chain(each, above | {name}) for each in sorted(_at_import(modules()[name].tree) - above - {name})]
            chains[name] = [name, *max(below, key=len, default=[])]
        return chains[name]

    return max((chain(name, frozenset()) for name in modules()), key=len)


@functools.cache
def operator_names() -> frozenset[str]:
    """Return the operators of the standard domain, and those that the package defines."""
    import onnx

    from onnx_passes.ops.definition import definitions

    standard = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    return frozenset(standard | {definition.name for definition in definitions()})


def _texts(module: Module) -> Iterator[ast.Constant]:
    """Yield the texts of a module that are operators, docstrings left out by what they hold."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in operator_names():
            yield node


def _elsewhere() -> Iterator[Module]:
    inside = tuple(f"{package}." for package in _OPERATORS)
    return (each for each in modules().values() if not f"{each.name}.".startswith(inside))


def spelled_operators() -> list[str]:
    """List the operators that more than four modules outside of `ops` and `passes` spell."""
    where: defaultdict[str, set[str]] = defaultdict(set)
    for module in _elsewhere():
        for node in _texts(module):
            where[str(node.value)].add(module.name)
    counts = {name: found for name, found in where.items() if len(found) > _SPELLED}
    ordered = sorted(counts.items(), key=lambda item: -len(item[1]))
    return [f"{name}: {len(found)} modules, {', '.join(sorted(found))}" for name, found in ordered]


def operator_tables() -> list[str]:
    """List the tables by operator outside of `ops` and `passes` that no interface takes."""
    found: list[str] = []
    for module in _elsewhere():
        attached = {
            inner
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "attach"
            for inner in ast.walk(node)
        }
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Dict) and node not in attached:
                keys = [key for key in node.keys if isinstance(key, ast.Constant) and key.value in operator_names()]
                if len(keys) >= _TABLE:
                    found.append(f"{module.name}:{node.lineno}: {len(keys)} operators")
    return found


def _first_lines() -> Iterator[tuple[str, str]]:
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    at = 1 if isinstance(node, ast.Module) else node.lineno
                    yield f"{module.name}:{at}", text.splitlines()[0]


def headless_clauses() -> list[str]:
    """List the first lines of docstrings that hang on a clause without a noun."""
    return [f"{where}: {line}" for where, line in _first_lines() if _HEADLESS.search(line)]


def dialect() -> list[str]:
    """List the first lines of docstrings with turns of phrase that the field does not have."""
    return [f"{where}: {line}" for where, line in _first_lines() if _DIALECT.search(line)]


_IMPORTING = """
import sys
from onnx_passes.cli.main import main
if main(sys.argv[1:]):
    sys.exit("the command failed")
sys.stdout.write(" ".join(sys.modules))
"""


def started_modules() -> list[str]:
    """List the modules of the package that `simplify --verify off` imports for a small network."""
    model = ROOT / "src" / PACKAGE / "examples" / "digits_float.onnx"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ("-q", "simplify", str(model), f"{folder}/out.onnx", "--verify", "off")
        command = [sys.executable, "-c", _IMPORTING, *arguments]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name for name in loaded if name.partition(".")[0] == PACKAGE)


MEASURES: dict[str, Callable[[], list[str]]] = {
    "modules": lambda: list(modules()),
    "folders of more than 25 modules": large_folders,
    "modules under 120 lines with one importer beside them": paragraphs,
    "names of public classes that several modules define": shared_class_names,
    "modules in the longest chain of imports": longest_chain,
    "modules imported by simplify --verify off": started_modules,
    "operators that more than 4 modules outside of ops and passes spell": spelled_operators,
    "tables by operator outside of an interface": operator_tables,
    "first lines of docstrings with a clause without a noun": headless_clauses,
    "first lines of docstrings in dialect": dialect,
}


def limits() -> dict[str, int]:
    """Return the numbers that are written down."""
    return tomllib.loads(LIMITS.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", metavar="MEASURE", help="list what a measure counts, by the first words of its name")
    arguments = parser.parse_args()
    if arguments.show:
        for name, measure in MEASURES.items():
            if name.startswith(arguments.show):
                sys.stdout.write("\n".join(measure()) + "\n")
        return
    lines = [f'"{name}" = {len(measure())}' for name, measure in MEASURES.items()]
    LIMITS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
