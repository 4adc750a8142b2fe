"""Random mutants: the usual small changes of expressions and statements, at random places of files."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.running import Mutant

_COMPARED: dict[type[ast.cmpop], Sequence[str]] = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">="),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<="),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_COMPUTED: dict[type[ast.operator], Sequence[str]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/", "+"),
    ast.Div: ("*",),
    ast.FloorDiv: ("/",),
    ast.Mod: ("//",),
    ast.Pow: ("*",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
    ast.LShift: (">>",),
    ast.RShift: ("<<",),
    ast.MatMult: ("*",),
}
_CALLED = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
    "floor": "ceil",
    "ceil": "floor",
    "sorted": "list",
    "isdisjoint": "issubset",
    "rint": "floor",
}
_SKIPPED_CALLS = frozenset({"Unproved", "NoFormError", "NoMeaningError", "cast", "TypeVar", "NewType"})
"""Calls whose texts are for people, or for checkers of types."""


@dataclass(frozen=True)
class Change:
    """Another text for a place of a file: the lines and columns of what it replaces."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def random_mutants(package: str, count: int, seed: int, root: Path, only: str = "") -> tuple[Mutant, ...]:
    """Draw mutants from the files of a package, each line at most once."""
    files = [root / package] if package.endswith(".py") else sorted((root / package).rglob("*.py"))
    found: dict[tuple[Path, int], list[Change]] = {}
    for path in files:
        if only in path.name:
            for change in changes(path.read_text()):
                found.setdefault((path, change.start[0]), []).append(change)
    draw = random.Random(seed)
    places = draw.sample(sorted(found), min(count, len(found)))
    return tuple(_mutant(path, draw.choice(found[path, line]), root) for path, line in places)


def _mutant(path: Path, change: Change, root: Path) -> Mutant:
    """Write a change as one of whole lines, with as many of the lines around as make it the only one."""
    lines = path.read_text().splitlines(keepends=True)
    first, last = change.start[0] - 1, change.end[0] - 1
    head = lines[first].encode()[: change.start[1]].decode()
    tail = lines[last].encode()[change.end[1] :].decode()
    new = head + change.text + tail
    text = "".join(lines)
    before, after = first, last + 1
    while text.count("".join(lines[before:after])) > 1:
        before = max(before - 1, 0)
    old, new = "".join(lines[before:after]), "".join(lines[before:first]) + new
    return Mutant(str(path.relative_to(root)), old, new)


def changes(source: str) -> Iterator[Change]:
    """Yield every change of a file that is not of texts for people, or of types."""
    waiting: list[ast.AST] = list(ast.parse(source).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Raise, ast.Assert, ast.JoinedStr)) or _is_text(node):
            continue
        yield from _of(node, source)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "args") and not isinstance(node, ast.Call):
                if name == "args" and isinstance(value, ast.arguments):
                    waiting.extend([*value.defaults, *(each for each in value.kw_defaults if each is not None)])
                continue
            if isinstance(node, ast.Call) and _name(node.func) in _SKIPPED_CALLS:
                continue
            waiting.extend(
                each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)
            )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _name(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _of(node: ast.AST, source: str) -> Iterator[Change]:
    def text(of: ast.expr) -> str:
        return f"({ast.get_source_segment(source, of)})"

    def instead(of: ast.expr | ast.stmt, new: str) -> Change:
        return Change((of.lineno, of.col_offset), (of.end_lineno or 0, of.end_col_offset or 0), new)

    rule: Callable[..., Iterator[Change]] | None = _RULES.get(type(node).__name__)
    if rule is not None:
        yield from rule(node, text, instead)


def _compare(node: ast.Compare, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        for other in _COMPARED.get(type(operator), ()):
            left = text(node.left) + "".join(
                f" {_COMPARE_TEXT[type(each)]} {text(right)}"
                for each, right in zip(node.ops[:place], node.comparators[:place], strict=True)
            )
            rest = "".join(
                f" {_COMPARE_TEXT[type(each)]} {text(right)}"
                for each, right in zip(node.ops[place + 1 :], node.comparators[place + 1 :], strict=True)
            )
            yield instead(node, f"({left} {other} {text(node.comparators[place])}{rest})")


_COMPARE_TEXT: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _boolean(node: ast.BoolOp, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    word, other = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
    yield instead(node, f"({other.join(map(text, node.values))})")
    for place in range(len(node.values)):
        yield instead(node, f"({word.join(text(each) for at, each in enumerate(node.values) if at != place)})")


def _unary(node: ast.UnaryOp, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    yield instead(node, text(node.operand))


def _computed(node: ast.BinOp, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        return
    for other in _COMPUTED.get(type(node.op), ()):
        yield instead(node, f"({text(node.left)} {other} {text(node.right)})")
    if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult)):
        word = {ast.Sub: "-", ast.Div: "/", ast.MatMult: "@"}[type(node.op)]
        yield instead(node, f"({text(node.right)} {word} {text(node.left)})")


def _constant(node: ast.Constant, _text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield instead(node, str(not node.value))
    elif isinstance(node.value, int):
        yield instead(node, str(node.value + 1))
        yield instead(node, f"({node.value - 1})")
    elif isinstance(node.value, float):
        yield instead(node, repr(node.value * 2 + 1))


def _call(node: ast.Call, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    name = _name(node.func)
    if name in _CALLED:
        whole = text(node.func)[1:-1]
        yield instead(node.func, whole.removesuffix(name) + _CALLED[name])
    elif name in ("abs",) and len(node.args) == 1:
        yield instead(node, text(node.args[0]))


def _if(node: ast.If, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    yield instead(node.test, "False")
    yield instead(node.test, f"not {text(node.test)}")


def _choice(node: ast.IfExp, text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    yield instead(node, text(node.body))
    yield instead(node, text(node.orelse))


def _statement(node: ast.stmt, _text: Callable[[ast.expr], str], instead: Callable[..., Change]) -> Iterator[Change]:
    yield instead(node, "pass")


def _comprehension(
    node: ast.ListComp, text: Callable[[ast.expr], str], instead: Callable[..., Change]
) -> Iterator[Change]:
    for each in node.generators:
        for condition in each.ifs:
            yield instead(condition, f"not {text(condition)}")
            yield instead(condition, "True")


_RULES: dict[str, Callable[..., Iterator[Change]]] = {
    "AugAssign": _statement,
    "BinOp": _computed,
    "BoolOp": _boolean,
    "Break": _statement,
    "Call": _call,
    "Compare": _compare,
    "Constant": _constant,
    "Continue": _statement,
    "Expr": _statement,
    "GeneratorExp": _comprehension,
    "If": _if,
    "IfExp": _choice,
    "ListComp": _comprehension,
    "SetComp": _comprehension,
    "UnaryOp": _unary,
}
