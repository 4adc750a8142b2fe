"""Properties that say which operators a model uses, and how often."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph.wording import name_of
from onnx_passes.verify.structure.properties import Property, Violation, in_function, scopes

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


@dataclass(frozen=True)
class _Operators(Property):
    operators: tuple[OperatorPattern, ...]

    def __post_init__(self) -> None:
        if not self.operators:
            raise UsageError(f"'{self.name}' names no operator", hint=f"write {self.name}(OPERATOR, …)")

    def arguments(self) -> tuple[str, ...]:
        """Return the operators as text."""
        return tuple(map(str, self.operators))


@dataclass(frozen=True)
class Only(_Operators):
    """All nodes are of the given operators.

    A call of a function of the model is judged by the body of the function, unless the call itself is allowed:
    then its body is not looked into.
    """

    name = "only"

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Name the nodes of other operators."""
        allowed = set(self.operators)
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
        return self._violated("other operators are used", offenders)


@dataclass(frozen=True)
class NoneOf(_Operators):
    """No node is of one of the given operators, in graphs and in the bodies of functions."""

    name = "none-of"

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Name the nodes of these operators."""
        return self._violated("forbidden operators are used", _nodes_of(model, self.operators))


@dataclass(frozen=True)
class _Limit(Property):
    operator: OperatorPattern
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise UsageError(f"'{self.name}' does not take the number {self.number}", hint="write 0 or more")

    def arguments(self) -> tuple[str, ...]:
        """Return operator and number."""
        return (str(self.operator), str(self.number))

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Name the nodes of the operator, if their number is wrong."""
        found = _nodes_of(model, (self.operator,))
        message = f"there {'is' if len(found) == 1 else 'are'} {len(found) or 'none'}"
        return [] if self.allows(len(found)) else [Violation(str(self), message, tuple(found))]

    @abstractmethod
    def allows(self, number: int) -> bool:
        """Say whether a number of nodes is right."""


@dataclass(frozen=True)
class AtMost(_Limit):
    """There are at most so many nodes of an operator; the body of a function counts once."""

    name = "at-most"

    def allows(self, number: int) -> bool:
        """Say whether there are few enough."""
        return number <= self.number


@dataclass(frozen=True)
class AtLeast(_Limit):
    """There are at least so many nodes of an operator; the body of a function counts once."""

    name = "at-least"

    def allows(self, number: int) -> bool:
        """Say whether there are enough."""
        return number >= self.number


def _nodes_of(model: ir.Model, operators: tuple[OperatorPattern, ...]) -> list[str]:
    wanted = set(operators)
    return [
        name_of(node) + suffix
        for scope, suffix in scopes(model)
        for node in scope.all_nodes()
        if _is_among(node, wanted)
    ]


def _is_among(node: ir.Node, operators: Collection[OperatorPattern]) -> bool:
    domain = "" if node.domain == _STANDARD else node.domain
    return OperatorPattern(domain, node.op_type) in operators or OperatorPattern(domain, "*") in operators
