"""Laws: rules that are data, ``before → after`` as text and what must hold, each compiled to a rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.core.base import Transformation
from onnx_passes.core.errors import RegistrationError
from onnx_passes.graph.builder import Builder
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.law_left import PatternBuilder, attributes_of, names_of
from onnx_passes.rewrite.law_right import Term, Terms
from onnx_passes.rewrite.law_text import (
    GIVEN,
    Bindings,
    Compared,
    Expression,
    FunctionCall,
    Kinds,
    LawError,
    Logic,
    Operation,
    Variable,
    Written,
    read,
    walk,
)
from onnx_passes.rewrite.law_words import CONSTANT, WORDS
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import build_pattern
from onnx_passes.rewrite.refusal import Refusal, no, reason_of, yes
from onnx_passes.rewrite.rule import Rule

ARROW = "→"
_RESULT = "result"
_SHOWN = 6
"""How many operators are named that may stand in the same place."""


@dataclass(frozen=True)
class When:
    """A condition on what the names of a law stand for, and the reason to give where it does not hold.

    A function in it may also answer with a refusal, which then brings its own reason.
    """

    text: str
    reason: str = ""


class Vocabulary:
    """The functions of Python that the laws of a table may call, beside the ``WORDS`` that all know.

    One whose first parameter is called ``op`` is given the builder of the replacement; ``match``, the match. For a
    parameter of type ``ir.Node`` it is given the node that computes a value. Underscores before its name are left out.
    ``kinds`` names operators that may stand in the same place.
    """

    def __init__(self, *functions: Callable[..., Any], **kinds: Sequence[str]) -> None:
        self._kinds = kinds
        self._functions = {**WORDS, **{function.__name__.lstrip("_"): function for function in functions}}

    def law(self, text: str, *when: When, name: str = "", forks: Forks = "exclusive", commute: bool = True) -> Law:
        """Write a law, ``before → after``; it is named after the outermost operator unless you name it."""
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        source = "" if caller is None else f"{caller.f_code.co_filename}:{caller.f_lineno}"
        return Law(text, when, name, forks, commute, self._functions, self._kinds, source)


@dataclass(frozen=True)
class Law:
    """One rewrite as data; ``result`` is what the left side computes, unless named: ``y, mask = Dropout(x)``."""

    text: str
    when: tuple[When, ...]
    name: str
    forks: Forks
    commute: bool
    functions: Mapping[str, Callable[..., Any]] = field(repr=False)
    kinds: Kinds = field(repr=False)
    source: str

    def __str__(self) -> str:
        used = {name: list(operators) for name, operators in self.kinds.items() if f"{name}(" in self.text}
        for operators in used.values():
            operators[_SHOWN:] = ["…"] if len(operators) > _SHOWN else []
        meant = ", ".join(f"{name} is {' | '.join(operators)}" for name, operators in used.items())
        conditions = ", ".join(condition.text for condition in self.when)
        return self.text + (f"   with {meant}" if meant else "") + (f"   when {conditions}" if conditions else "")

    @property
    def rule_name(self) -> str:
        """Return the name of the rule: its own, or that of the outermost operator."""
        return self._parts[0]

    def rule(self) -> Rule:
        """Compile the law; what is read from the text is kept for the next time."""
        name, pattern, rewrite, check = self._parts
        demands = [part for condition in self.when for part in _conjuncts(read(condition.text))]
        return Rule(
            pattern,
            rewrite,
            check,
            name=name,
            commute=self.commute,
            forks=self.forks,
            constants=[name for part in demands if (name := _constant(part))],
            since=max(map(_since, demands), default=0),
            source=self.source,
        )

    @functools.cached_property
    def _parts(self) -> tuple[str, language.GraphPattern, Callable[..., Any], Callable[..., Any] | None]:
        try:
            before, after = self._sides()
            attributes = tuple(attributes_of(before))
            names = names_of(before)
            terms = Terms(names, self.functions, "match")
            conditions = tuple(_Condition.of(condition, terms) for condition in self.when)
            build = Terms(names, self.functions, "op").of(after)
        except LawError as error:
            title = f"{self.name}: {self}" if self.name else str(self)
            raise RegistrationError(
                f"law '{title}' cannot be used: {error}", where=self.source, hint=error.hint
            ) from None

        parts = (*attributes, *conditions)

        def check(match: Match, **bound: Any) -> Any:
            bound[GIVEN] = match
            for part in parts:
                refusal = part.refuse(bound)
                if refusal is not None:
                    return refusal
            return yes

        def rewrite(op: Builder, **bound: Any) -> Any:
            bound[GIVEN] = op
            for attribute in attributes:
                attribute.refuse(bound)
            return build(bound)

        name = self.name or before.op_type
        pattern = build_pattern(PatternBuilder(before), name)
        return name, pattern, rewrite, check if attributes or conditions else None

    def _sides(self) -> tuple[Operation, Expression]:
        left, arrow, right = self.text.partition(ARROW)
        if not arrow:
            raise LawError("there is no arrow in it", f"write 'before {ARROW} after'")
        names, _, computed = left.rpartition(" = ")
        before = read(computed, self.kinds)
        if not isinstance(before, Operation):
            raise LawError("its left side is no operator", "write what to look for as Add(x, y) or x + y")
        results = tuple(name.strip() for name in names.split(",")) if names else (_RESULT,)
        return replace(before, results=results), read(right, self.kinds)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """Iterate over the parts of a condition that must all hold."""
    if isinstance(condition, Logic) and condition.kind == "and":
        for part in condition.parts:
            yield from _conjuncts(part)
    else:
        yield condition


def _constant(condition: Expression) -> str:
    """Return the name of what a condition needs to be constant."""
    match condition:
        case FunctionCall(function=function, arguments=(Variable(name=name), *_)) if function in CONSTANT:
            return name
        case _:
            return ""


def _since(condition: Expression) -> int:
    """Return the opset that a condition asks for."""
    match condition:
        case Compared(kind="ge", parts=(Variable(name="opset"), Written(value=int(since)))):
            return since
        case _:
            return 0


class LawPass(Transformation, RewriteRuleSetPass):
    """A pass that is a table of laws, tried in their order; most conditions ask for types and shapes."""

    needs = ("shape-inference",)
    laws: ClassVar[Sequence[Law]] = ()

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Name ``laws``, unless there are some."""
        return () if cls.laws else ("laws",)

    def chosen(self) -> Sequence[Law]:
        """Return the laws that the options ask for: all, where there are none."""
        return self.laws

    def rules(self) -> Sequence[Rule]:
        """Compile the laws."""
        return [law.rule() for law in self.chosen()]


@dataclass(frozen=True)
class _Condition:
    """A condition, compiled, and the names whose value is shown where it does not hold."""

    holds: Term
    reason: str
    names: tuple[str, ...]

    @staticmethod
    def of(condition: When, terms: Terms) -> _Condition:
        expression = read(condition.text)
        names = tuple(part.name for part in walk(expression) if isinstance(part, Variable))
        return _Condition(terms.of(expression), condition.reason or f"not {condition.text}", names)

    def refuse(self, bindings: Bindings) -> Refusal | None:
        answer = self.holds(bindings)
        if answer:
            return None
        places = (bindings.get(name) for name in self.names)
        place = next((value for value in places if isinstance(value, ir.Value)), None)
        return no(reason_of(answer, self.reason), at=getattr(answer, "at", None) or place)
