"""The right side of a law, and its conditions, compiled to functions of the bindings of a match."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import onnx_ir as ir

from onnx_passes.core.errors import did_you_mean
from onnx_passes.rewrite.law_text import (
    GIVEN,
    Bindings,
    Compared,
    Expression,
    FunctionCall,
    LawError,
    Logic,
    Operation,
    Variable,
    Written,
)

Term = Callable[[Bindings], Any]

_GIVEN = ("op", "match")
_NODES = (ir.Node, "ir.Node")


class MatchExpressions:
    """Compiles expressions over a match: conditions, which get ``match``, or replacements, which get ``op``."""

    def __init__(
        self, names: Iterable[str], functions: Mapping[str, Callable[..., Any]], given: Literal["op", "match"]
    ) -> None:
        self._names = {*names, given, "opset"}
        self._functions = functions
        self._given = given

    def of(self, expression: Expression) -> Term:
        """Compile an expression, whose names must be bound before."""
        match expression:
            case Variable(name=name):
                if name not in self._names:
                    raise LawError(f"nothing binds '{name}'", f"bound are {', '.join(sorted(self._names))}")
                if name == "opset":
                    return lambda bindings: bindings[GIVEN].opset
                return operator.itemgetter(GIVEN if name == self._given else name)
            case Operation():
                return self._operation(expression)
            case FunctionCall(function=name, arguments=arguments):
                return self._call(name, [self.of(argument) for argument in arguments])
            case Logic(kind=kind, parts=parts):
                return _logic(kind, [self.of(part) for part in parts])
            case Compared(kind=kind, parts=(left, right)):
                compare, first, second = getattr(operator, kind), self.of(left), self.of(right)
                return lambda bindings: compare(first(bindings), second(bindings))
            case Written(value=value):
                return lambda bindings: value
            case _:
                raise LawError("'|' leaves open what to build", "write a law for each")

    def _operation(self, expression: Operation) -> Term:
        if self._given != "op":
            raise LawError(f"a condition builds {expression.op_type}", "call functions in it, in lower case")
        operands = [self.of(operand) for operand in expression.operands]
        attributes = {name: self.of(value) for name, value in expression.attributes.items()}
        results, op_type, domain = expression.results, expression.op_type, expression.domain
        self._names.update(results)

        def build(bindings: Bindings) -> Any:
            given = {name: term(bindings) for name, term in attributes.items()}
            built = bindings[GIVEN].op(op_type, *[term(bindings) for term in operands], _domain=domain, **given)
            for name in results:
                bindings[name] = built
            return built

        return build

    def _call(self, name: str, arguments: Sequence[Term]) -> Term:
        function = self._functions.get(name)
        if function is None:
            known = sorted(self._functions)
            raise LawError(
                f"no function is called '{name}'",
                did_you_mean(name, known) or f"the vocabulary of the law has {', '.join(known) or 'none'}",
            )
        parameters = _parameters(function)
        given = parameters[0].name if parameters and parameters[0].name in _GIVEN else ""
        if given not in ("", self._given):
            where = "on the right side" if given == "op" else "in conditions"
            raise LawError(f"'{name}' wants '{given}', which there is {where} only", "call it there")
        terms = [operator.itemgetter(GIVEN), *arguments] if given else list(arguments)
        for place, parameter in enumerate(parameters[: len(terms)]):
            if parameter.annotation in _NODES:
                terms[place] = _node(terms[place])
        if len(terms) == 1:
            only = terms[0]
            return lambda bindings: function(only(bindings))
        return lambda bindings: function(*[term(bindings) for term in terms])


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


def _node(value: Term) -> Term:
    """Compute the node that a value comes from."""
    return lambda bindings: value(bindings).producer()


def _logic(kind: str, parts: Sequence[Term]) -> Term:
    """Join conditions; the answer is that of the part that decided, so that a refusal keeps its reason."""
    if kind == "not":
        return lambda bindings: not parts[0](bindings)
    stops = kind == "or"

    def decide(bindings: Bindings) -> Any:
        answer: Any = None
        for part in parts:
            answer = part(bindings)
            if bool(answer) == stops:
                return answer
        return answer

    return decide
