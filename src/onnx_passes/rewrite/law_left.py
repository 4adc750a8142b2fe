"""The left side of a law: the pattern in the language of onnxscript, and the attributes to read after a match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.graph.schemas import default_attribute
from onnx_passes.rewrite.law_text import (
    ANYTHING,
    GIVEN,
    Bindings,
    Compared,
    Either,
    Expression,
    FunctionCall,
    LawError,
    Logic,
    Operation,
    Variable,
    Written,
    walk,
)
from onnx_passes.rewrite.patterns import (
    ANY_VALUE,
    AttributeConstant,
    ConstantPattern,
    GraphPattern,
    NodePattern,
    OrValue,
    ResultPattern,
    Var,
)
from onnx_passes.rewrite.refusal import Refusal, no

_NEWEST = 2**31 - 1


@dataclass(frozen=True)
class AttributeRead:
    """An attribute of a node on the left: bound to a name, or held against the default that it is to have."""

    node: str
    name: str
    variable: str | None
    expected: Any

    def refuse(self, bindings: Bindings) -> Refusal | None:
        """Bind the attributes of a node, or their defaults; return the reason if one does not match."""
        value: ir.Value | None = bindings[self.node]
        node = None if value is None else value.producer()
        if node is None:
            return None
        given = node.attributes.get(self.name)
        if given is not None and given.is_ref():
            return no(f"attribute '{self.name}' is a parameter of a function", at=node)
        if given is None:
            found = default_attribute(node.domain, node.op_type, self.name, bindings[GIVEN].opset)
        else:
            found = given.value
        if self.variable is not None:
            bindings[self.variable] = found
        elif found != self.expected:
            return no(f"attribute '{self.name}' is {found!r}, not {self.expected!r}", at=node)
        return None


def names_of(before: Operation) -> tuple[str, ...]:
    """Return the names that the left side binds, in the order of the text."""
    found: list[str] = []
    for part in walk(before):
        match part:
            case Operation() | Either():
                found.extend(_labels(part))
            case Variable(name=name) if part != ANYTHING:
                found.append(name)
            case FunctionCall() | Logic() | Compared():
                raise LawError("its left side calls functions", "say in a condition what must hold")
            case _:
                pass
    return tuple(dict.fromkeys(found))


def attributes_of(before: Operation) -> Iterable[AttributeRead]:
    """List the attributes that are read after the match: a node may leave them out."""
    for part in walk(before):
        if isinstance(part, Operation):
            for name, value in part.attributes.items():
                if isinstance(value, Variable):
                    yield AttributeRead(part.results[0], name, value.name, None)
                elif _is_default(part, name, value):
                    yield AttributeRead(part.results[0], name, None, _literal(value))


def _is_default(operation: Operation, name: str, value: Expression) -> bool:
    return _literal(value) == default_attribute(operation.domain, operation.op_type, name, _NEWEST)


def _literal(value: Expression) -> Any:
    if not isinstance(value, Written):
        raise LawError("an attribute on its left side is computed", "give it a name or a value")
    return value.value


def pattern_of(before: Operation) -> GraphPattern:
    """Build the pattern of a left side."""
    parts = tuple(walk(before))
    attributes = {id(v) for part in parts if isinstance(part, Operation) for v in part.attributes.values()}
    computed = {name for part in parts if isinstance(part, Operation | Either) for name in _labels(part)}
    inputs = (part.name for part in parts if isinstance(part, Variable) and id(part) not in attributes)
    variables = {name: Var(name) for name in inputs if name not in {*computed, ANYTHING.name}}
    root = _build(before, {**variables, ANYTHING.name: ANY_VALUE})
    assert isinstance(root, ResultPattern)
    return GraphPattern(tuple(variables.values()), root.node.outputs)


def _labels(expression: Operation | Either) -> Sequence[str]:
    if isinstance(expression, Operation):
        return expression.results
    return () if expression.label is None else (expression.label,)


def _build(expression: Expression, bound: dict[str, Var]) -> Var:
    """Build a part of a pattern; named parts can be referred to later."""
    match expression:
        case Variable(name=name):
            return bound[name]
        case Either(choices=choices, label=label):
            built = OrValue([_build(choice, bound) for choice in choices], name=label)
            bound.update(dict.fromkeys(_labels(expression), built))
            return built
        case Operation():
            fixed = {
                name: AttributeConstant(_literal(value))
                for name, value in expression.attributes.items()
                if not isinstance(value, Variable) and not _is_default(expression, name, value)
            }
            results = NodePattern(
                expression.domain,
                expression.op_type,
                [_build(operand, bound) for operand in expression.operands],
                fixed,
                expression.results or (None,),
                allow_other_inputs=expression.takes_more,
            ).outputs
            bound.update(zip(expression.results, results, strict=False))
            return results[0]
        case _:
            return ConstantPattern(_literal(expression))
