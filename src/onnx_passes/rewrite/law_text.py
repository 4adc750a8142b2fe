"""The text of laws: expressions of operators in the syntax of Python, read into trees.

``Add(x, y)`` or ``x + y`` is an operator; a name in lower case denotes a value, or an attribute (``a=b``); ``_`` any
input, including an omitted one, and ``...`` any further ones; ``once := Abs(x)`` names a result, which ``once`` refers
to; ``a | b`` is either of two; ``negated(c)``, in lower case, calls a Python function.
Conditions combine such calls and comparisons with ``and``, ``or``, ``not``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from onnx_passes.core.errors import did_you_mean
from onnx_passes.graph.schemas import is_standard, standard_operators

_INFIX: Mapping[type[ast.AST], str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.MatMult: "MatMul",
}
_COMPARISONS: Mapping[type[ast.AST], Literal["eq", "ne", "lt", "le", "gt", "ge"]] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


class LawError(Exception):
    """An error in the text of a law, with a hint."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


@dataclass(frozen=True)
class Variable:
    """A name that denotes a value or an attribute."""

    name: str


@dataclass(frozen=True)
class Written:
    """A number, a text, or a list of such, written out."""

    value: Any


@dataclass(frozen=True)
class Operation:
    """An operator applied to operands; its results may have names."""

    domain: str
    op_type: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, Expression]
    takes_more: bool = False
    results: tuple[str, ...] = ()


@dataclass(frozen=True)
class Either:
    """One of several expressions; the match may have a name."""

    choices: tuple[Expression, ...]
    label: str | None = None


@dataclass(frozen=True)
class FunctionCall:
    """A function of Python, called with values."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Logic:
    """Conditions joined by ``and`` or ``or``, or one that must not hold."""

    kind: Literal["and", "or", "not"]
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Compared:
    """Two things that are compared by a function of the module ``operator``."""

    kind: Literal["eq", "ne", "lt", "le", "gt", "ge"]
    parts: tuple[Expression, ...]


Bindings = dict[str, Any]
"""Bindings of names to the match; under ``GIVEN``, the match itself, or the builder of the replacement."""

GIVEN = ""

Kinds = Mapping[str, Sequence[str]]
"""Names for sets of alternative operators: ``Layer`` for Conv, Gemm and MatMul."""

ANYTHING = Variable("_")

Expression = Variable | Written | Operation | Either | FunctionCall | Logic | Compared


def read(text: str, kinds: Kinds | None = None) -> Expression:
    """Parse an expression; ``kinds`` names sets of alternative operators."""
    return _Reader(kinds or {}).expression(_parsed(text.strip()))


@functools.cache
def _parsed(text: str) -> ast.expr:
    """Parse a text once: many laws have the same conditions."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise LawError(f"'{text}' cannot be read: {error.msg}", "write operators as Add(x, y) or x + y") from None


def walk(expression: Expression) -> Iterator[Expression]:
    """Iterate over an expression and all its parts, in the order of the text."""
    yield expression
    match expression:
        case Operation(operands=operands, attributes=attributes):
            parts = (*operands, *attributes.values())
        case Either(choices=parts) | FunctionCall(arguments=parts) | Logic(parts=parts) | Compared(parts=parts):
            pass
        case _:
            parts = ()
    for part in parts:
        yield from walk(part)


class _Reader:
    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    def expression(self, node: ast.expr) -> Expression:
        match node:
            case ast.Name(id=name):
                return Variable(name)
            case ast.NamedExpr(target=target, value=value):
                return _labelled(self.expression(value), target.id)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                first, second = self._all(left, right)
                known = first.choices if isinstance(first, Either) and first.label is None else (first,)
                return Either((*known, second))
            case ast.BinOp(left=left, op=infix, right=right) if type(infix) in _INFIX:
                return Operation("", _INFIX[type(infix)], self._all(left, right), {})
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                return Operation("", "Neg", self._all(operand), {})
            case ast.BoolOp(op=kind, values=values):
                return Logic("and" if isinstance(kind, ast.And) else "or", self._all(*values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Logic("not", self._all(operand))
            case ast.Compare(left=left, ops=[comparison], comparators=[right]) if type(comparison) in _COMPARISONS:
                return Compared(_COMPARISONS[type(comparison)], self._all(left, right))
            case ast.Call():
                return self._call(node)
            case _:
                return _written(node)

    def _all(self, *nodes: ast.expr) -> tuple[Expression, ...]:
        return tuple(map(self.expression, nodes))

    def _call(self, node: ast.Call) -> Expression:
        domain, _, name = _dotted(node.func).rpartition(".")
        operands = self._all(*(operand for operand in node.args if not _is_ellipsis(operand)))
        attributes = {word.arg: self.expression(word.value) for word in node.keywords if word.arg is not None}
        if name[:1].islower() and not domain and not attributes:
            return FunctionCall(name, operands)
        # What has attributes needs a name, by which they are read.
        results = (f"{name} at {node.col_offset}",) if attributes else ()
        found = Operation(domain, name, operands, attributes, len(operands) < len(node.args), results)
        if not domain and name in self._kinds:
            return Either(tuple(replace(found, op_type=one) for one in self._kinds[name]))
        if not domain and not is_standard(name):
            raise LawError(f"ONNX has no operator '{name}'", did_you_mean(name, standard_operators()))
        return found


def _labelled(expression: Expression, label: str) -> Expression:
    match expression:
        case Operation():
            return replace(expression, results=(label,))
        case Either():
            return replace(expression, label=label)
        case _:
            raise LawError(f"'{label}' names something that is not computed", "name the result of an operator")


def _dotted(node: ast.expr) -> str:
    """Return a name, or names with dots between."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case _:
            raise LawError(f"'{ast.unparse(node)}' names no operator", "write operators as Add(x, y) or x + y")


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _written(node: ast.expr) -> Written:
    try:
        return Written(ast.literal_eval(node))
    except ValueError:
        raise LawError(
            f"'{ast.unparse(node)}' means nothing in a law", "write operators as Add(x, y) or x + y"
        ) from None
