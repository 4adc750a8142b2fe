"""Properties that say which operators a model uses, and how often."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph.wording import name_of
from onnx_passes.verify.structure.properties import Property, Violation, free_of, in_function, scopes

_OPERATOR = re.compile(r"(?:(?P<domain>[^\s:*]+)::)?(?P<type>[^\s:*]+|\*)")
_STANDARD = "ai.onnx"


class OperatorPattern(NamedTuple):
    """An operator, or all of a domain: ``Relu``, ``domain::Op``, ``domain::*``; without a domain, one of ONNX."""

    domain: str
    type: str

    @classmethod
    def parse(cls, text: str) -> OperatorPattern:
        """Read an operator; a standard one must exist, so that a misspelt name is not silently never found."""
        import onnx

        found = _OPERATOR.fullmatch(text)
        if found is None or text == "*":
            raise UsageError(f"'{text}' is no operator", hint="write Relu, domain::Op or domain::*")
        domain = "" if found["domain"] in (None, _STANDARD) else found["domain"]
        if not domain and found["type"] != "*" and not onnx.defs.has(found["type"]):
            schemas = onnx.defs.get_all_schemas()
            known = (schema.name for schema in schemas if not schema.domain)
            near = did_you_mean(found["type"], known)
            hint = f"write domain::{found['type']} if it is of another domain" + (f", or {near}" if near else "")
            raise UsageError(f"ONNX has no operator '{found['type']}'", hint=hint)
        return cls(domain, found["type"])

    def __str__(self) -> str:
        domain = self.domain or (_STANDARD if self.type == "*" else "")
        return f"{domain}::{self.type}" if domain else self.type


def only(*operators: str) -> Property:
    """Require all nodes to be of these operators: ``Relu``, ``domain::Op`` or ``domain::*``.

    A call of a function of the model is judged by the body of the function, unless the call itself is allowed:
    then its body is not looked into.
    """
    allowed = _patterns("only", operators)

    def others(model: ir.Model) -> list[str]:
        pending = {model.graph: ""}
        offenders: list[str] = []
        seen = set(pending)
        while pending:
            scope, suffix = pending.popitem()
            for node in scope.all_nodes():
                if _is_among(node, allowed):
                    continue
                function = model.functions.get(node.op_identifier())
                if function is None:
                    offenders.append(name_of(node) + suffix)
                elif function.graph not in seen:
                    seen.add(function.graph)
                    pending[function.graph] = in_function(function)
        return offenders

    return free_of(f"only({', '.join(map(str, allowed))})", "other operators are used", others)


def none_of(*operators: str) -> Property:
    """Require no node to be of these operators, in graphs and in the bodies of functions."""
    forbidden = _patterns("none-of", operators)
    text = f"none-of({', '.join(map(str, forbidden))})"
    return free_of(text, "forbidden operators are used", lambda model: _nodes_of(model, forbidden))


def at_most(operator_name: str, number: int) -> Property:
    """Require at most so many nodes of an operator; the body of a function counts once."""
    return _limit("at-most", operator_name, number, operator.le)


def at_least(operator_name: str, number: int) -> Property:
    """Require at least so many nodes of an operator; the body of a function counts once."""
    return _limit("at-least", operator_name, number, operator.ge)


def _limit(name: str, operator_name: str, number: int, allows: Callable[[int, int], bool]) -> Property:
    pattern = OperatorPattern.parse(operator_name)
    if number < 0:
        raise UsageError(f"'{name}' does not take the number {number}", hint="write 0 or more")
    text = f"{name}({pattern}, {number})"

    def find(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        found = _nodes_of(model, (pattern,))
        message = f"there {'is' if len(found) == 1 else 'are'} {len(found) or 'none'}"
        return [] if allows(len(found), number) else [Violation(text, message, tuple(found))]

    return Property(text, find)


def _patterns(name: str, operators: Collection[str]) -> tuple[OperatorPattern, ...]:
    if not operators:
        raise UsageError(f"'{name}' names no operator", hint=f"write {name}(OPERATOR, …)")
    return tuple(map(OperatorPattern.parse, operators))


def _nodes_of(model: ir.Model, operators: Collection[OperatorPattern]) -> list[str]:
    return [
        name_of(node) + suffix
        for scope, suffix in scopes(model)
        for node in scope.all_nodes()
        if _is_among(node, operators)
    ]


def _is_among(node: ir.Node, operators: Collection[OperatorPattern]) -> bool:
    domain = "" if node.domain == _STANDARD else node.domain
    return OperatorPattern(domain, node.op_type) in operators or OperatorPattern(domain, "*") in operators
