"""Laws: rules as data, ``before → after`` as text with conditions, each compiled to a rule."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes.core.base import Transformation
from onnx_passes.core.errors import RegistrationError
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import (
    grows,
    held,
    holds_only,
    is_constant,
    is_number,
    is_own_constant,
    number,
)
from onnx_passes.graph.shapes import (
    has_no_signs,
    is_discrete,
    is_float,
    is_integral,
    is_whole,
    keeps_shape,
    stays,
    vanishes_into,
)
from onnx_passes.ops.number_systems.constants import folded, grows_when_folded, negated
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.law_left import attributes_of, names_of, pattern_of
from onnx_passes.rewrite.law_right import MatchExpressions, Term
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
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import GraphPattern
from onnx_passes.rewrite.refusal import Refusal, no, reason_of, yes
from onnx_passes.rewrite.rule import Rule

CONSTANT = frozenset(function.__name__ for function in (holds_only, is_constant, is_number, is_own_constant))
"""The functions that say no to a first argument that is not constant."""
WORDS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        folded,
        grows,
        grows_when_folded,
        has_no_signs,
        held,
        holds_only,
        is_constant,
        is_discrete,
        is_float,
        is_integral,
        is_number,
        is_own_constant,
        is_whole,
        keeps_shape,
        negated,
        number,
        stays,
        vanishes_into,
    )
}

ARROW = "→"
_RESULT = "result"
_CALL = re.compile(r"(?:(?P<domain>[\w.]+)\.)?(?P<name>[A-Z]\w*)\((?P<operands>.*)\)", re.DOTALL)
_SHOWN = 6
"""Maximum number of alternative operators named in messages."""


@dataclass(frozen=True)
class When:
    """A condition on the bindings of a law, and the reason of the refusal if it does not hold.

    A function in it may also return a refusal with its own reason.
    """

    text: str
    reason: str = ""


class Vocabulary:
    """The Python functions that the laws of a table may call, in addition to the ``WORDS`` of all laws.

    A first parameter ``op`` gets the builder of the replacement; ``match``, the match. A parameter of type ``ir.Node``
    gets the producer of the value. Leading underscores of names are omitted. ``kinds`` names sets of alternative
    operators.
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
    """One rewrite as data; ``result`` is the value of the left side, unless named: ``y, mask = Dropout(x)``."""

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

    @functools.cached_property
    def operator(self) -> tuple[str, str]:
        """Return domain and type of the outermost operator; a text that is one call is not parsed for it."""
        called = _CALL.fullmatch(self.text.partition(ARROW)[0].rpartition(" = ")[2].strip())
        if called is not None and called["name"] not in self.kinds and _is_balanced(called["operands"]):
            return called["domain"] or "", called["name"]
        with self._located():
            before, _ = self._sides()
        return before.domain, before.op_type

    @property
    def rule_name(self) -> str:
        """Return the name of the rule: its own, or that of the outermost operator."""
        return self.name or self.operator[1]

    @functools.cached_property
    def compiled(self) -> Rule:
        """Compile the law."""
        pattern, rewrite, check = self._parts()
        demands = [part for condition in self.when for part in _conjuncts(read(condition.text))]
        return Rule(
            pattern,
            rewrite,
            check,
            name=self.rule_name,
            commute=self.commute,
            forks=self.forks,
            constants=[name for part in demands if (name := _constant(part))],
            since=max(map(_since, demands), default=0),
            source=self.source,
        )

    def _parts(self) -> tuple[GraphPattern, Callable[..., Any], Callable[..., Any] | None]:
        with self._located():
            before, after = self._sides()
            attributes = tuple(attributes_of(before))
            names = names_of(before)
            terms = MatchExpressions(names, self.functions, "match")
            conditions = tuple(_Condition.of(condition, terms) for condition in self.when)
            build = MatchExpressions(names, self.functions, "op").of(after)
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

        return pattern_of(before), rewrite, check if attributes or conditions else None

    @contextlib.contextmanager
    def _located(self) -> Generator[None]:
        """Raise errors of the text as errors of the law, with the place where it is written."""
        try:
            yield
        except LawError as error:
            title = f"{self.name}: {self}" if self.name else str(self)
            raise RegistrationError(
                f"law '{title}' cannot be used: {error}", where=self.source, hint=error.hint
            ) from None

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


class LawRule(Rule):
    """The rule of a law; it is compiled when more is asked for than its name, its source and its operator."""

    setup = cleanup = None
    has_many_roots = False

    def __init__(self, law: Law) -> None:
        self._law = law
        self.name, self.source, self.operators, self.owner = law.rule_name, law.source, (law.operator,), None

    def __getattr__(self, name: str) -> Any:
        known = vars(self)
        if name.startswith("__") or "_law" not in known:
            raise AttributeError(name)
        known.update({**vars(self._law.compiled), **known})
        try:
            return known[name]
        except KeyError:
            raise AttributeError(name) from None


def _is_balanced(operands: str) -> bool:
    """Return whether the parentheses in a text close all that they open, and nothing else."""
    depth = 0
    for character in operands:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """Iterate over the parts of a condition that must all hold."""
    if isinstance(condition, Logic) and condition.kind == "and":
        for part in condition.parts:
            yield from _conjuncts(part)
    else:
        yield condition


def _constant(condition: Expression) -> str:
    """Return the name of the value that a condition requires to be constant; empty if there is none."""
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
        """Return the laws that the options select; all laws unless a subclass has options."""
        return self.laws

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the laws."""
        return [LawRule(law) for law in self.chosen()]


@dataclass(frozen=True)
class _Condition:
    """Compiled condition, and the names of values to report if it does not hold."""

    holds: Term
    reason: str
    names: tuple[str, ...]

    @staticmethod
    def of(condition: When, terms: MatchExpressions) -> _Condition:
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
