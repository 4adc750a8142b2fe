"""Patterns as data: operators and values to match, written as functions of ``op`` and variables.

The language is that of onnxscript, whose own pattern classes are accepted as well (``onnxscript_patterns``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

import onnx_ir as ir

from onnx_passes.core.errors import RegistrationError
from onnx_passes.graph.schemas import misspelt
from onnx_passes.rewrite.source import is_of_onnxscript, source_of

Check: TypeAlias = Callable[..., Any]
Number = int | float


class TextPattern(Protocol):
    """A pattern of names of operators or domains."""

    def matches(self, item: str, /) -> bool:
        """Return whether a name fits."""
        ...


class Op(Protocol):
    """The ``op`` of a pattern: ``op.Add(x, y)`` is the result of a node that is to be found."""

    def __getattr__(self, op_type: str, /) -> Callable[..., Any]:
        """Return a maker of nodes of an operator."""
        ...


class Var:
    """A value of a pattern: a variable, or the result of a node of the pattern."""

    def __init__(self, name: str | None, *, check: Check | None = None, can_match_none: bool = False) -> None:
        self.name = name
        self.check_method = check
        self.can_match_none = can_match_none

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __add__(self, other: Any) -> Any:
        return OPERATORS.Add(self, other)

    def __radd__(self, other: Any) -> Any:
        return OPERATORS.Add(other, self)

    def __sub__(self, other: Any) -> Any:
        return OPERATORS.Sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return OPERATORS.Sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return OPERATORS.Mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return OPERATORS.Mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return OPERATORS.Div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return OPERATORS.Div(other, self)

    def __pow__(self, other: Any) -> Any:
        return OPERATORS.Pow(self, other)


class AnyValue(Var):
    """Any input, or an omitted one, to which nothing else refers."""

    def __init__(self) -> None:
        super().__init__(None)


ANY_VALUE = AnyValue()


class ConstantPattern(Var):
    """A constant: a number, or a list of them; floats are compared with a tolerance."""

    def __init__(self, value: Number | Sequence[Number], *, relative: float = 1e-5, absolute: float = 1e-8) -> None:
        super().__init__(None)
        self.value: Number | list[Number] = list(value) if isinstance(value, Sequence) else value
        self.tolerance = {"rel_tol": relative, "abs_tol": absolute}


class OrValue(Var):
    """A value that fits one of several patterns, which are tried in order.

    ``tag_var`` names which one it was, by its number or its ``tag_values``.
    """

    def __init__(
        self,
        values: Sequence[Any],
        name: str | None = None,
        tag_var: str | None = None,
        tag_values: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(name)
        if tag_values is not None and (tag_var is None or len(tag_values) != len(values)):
            raise ValueError("tag_values are for a tag_var, one for each alternative")
        self.tag_var = tag_var
        tags = range(len(values)) if tag_values is None else tag_values
        self.choices = tuple((tag, _value(value)) for tag, value in zip(tags, values, strict=True))


class ResultPattern(Var):
    """The result of a node of the pattern."""

    def __init__(self, node: NodePattern, index: int, name: str | None) -> None:
        super().__init__(name)
        self.node = node
        self.index = index


class AttributePattern:
    """An attribute that is bound to a name, if it has one; a ``test`` may ask for more."""

    def __init__(
        self, name: str | None, *, can_match_none: bool = False, test: Callable[[ir.Attr], bool] | None = None
    ) -> None:
        self.name = name
        self.can_match_none = can_match_none
        self.test = test


class AttributeConstant(AttributePattern):
    """An attribute with a value: a number, a text, or a list of these."""

    def __init__(self, value: Any) -> None:
        super().__init__(None)
        self.value = value


class NodePattern:
    """A node to be found: its operator, inputs, attributes, and the names of its results."""

    def __init__(
        self,
        domain: str | TextPattern,
        op_type: str | TextPattern,
        inputs: Sequence[Var | None],
        attributes: Mapping[str, AttributePattern],
        outputs: Sequence[str | None],
        *,
        allow_other_attributes: bool = True,
        allow_other_inputs: bool = False,
        check: Check | None = None,
    ) -> None:
        self._domain, self._op_type = domain, op_type
        self.domain, self.op_type = str(domain), str(op_type)
        self.operator: tuple[str, str] | None = (
            (domain, op_type) if isinstance(domain, str) and isinstance(op_type, str) else None
        )
        self.inputs = tuple(inputs)
        self.attributes = attributes
        self.outputs = tuple(ResultPattern(self, index, name) for index, name in enumerate(outputs))
        self.allow_other_attributes = allow_other_attributes
        self.allow_other_inputs = allow_other_inputs
        self.check_method = check

    def __repr__(self) -> str:
        return f"NodePattern({self.domain!r}, {self.op_type!r})"

    def may_be(self, op_type: str) -> bool:
        """Return whether a node of this operator matches, in any domain."""
        return self._op_type == op_type if isinstance(self._op_type, str) else self._op_type.matches(op_type)

    def may_be_in(self, domain: str) -> bool:
        """Return whether an operator of this domain fits."""
        return self._domain == domain if isinstance(self._domain, str) else self._domain.matches(domain)


class GraphPattern:
    """The whole pattern of a rule: its variables, and the values that are replaced."""

    def __init__(self, inputs: Sequence[Var], outputs: Sequence[Var]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.output_nodes = tuple(dict.fromkeys(each.node for each in outputs if isinstance(each, ResultPattern)))


class PrefixPattern:
    """Names of operators or domains that begin with a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return f"{self._text}*"

    def matches(self, item: str, /) -> bool:
        """Return whether a name begins with the text."""
        return item.startswith(self._text)


class PatternBuilder:
    """The ``op`` of patterns: makes node patterns and returns their results."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        return _Operator(op_type)

    def submodule(self, name: str) -> Callable[..., Any]:
        """Return a maker of nodes of an operator whose name begins with a text."""
        return _Operator(PrefixPattern(name))


class _Operator:
    def __init__(self, op_type: str | TextPattern) -> None:
        self._op_type = op_type

    def __call__(
        self,
        *inputs: Any,
        _domain: str | TextPattern = "",
        _outputs: int | Sequence[str | None] = 1,
        _allow_other_attributes: bool | None = None,
        _allow_other_inputs: bool | None = None,
        _check: Check | None = None,
        **attributes: Any,
    ) -> Any:
        if "_version" in attributes:
            raise ValueError("a pattern names no version of an operator: ask for 'opset' in the check")
        outputs = (None,) * _outputs if isinstance(_outputs, int) else tuple(_outputs)
        if not all(name is None or isinstance(name, str) for name in outputs):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("_outputs is neither a number nor a list of names")
        made = NodePattern(
            _domain,
            self._op_type,
            [None if value is None else _value(value) for value in inputs],
            {name: _attribute(value) for name, value in attributes.items()},
            outputs,
            allow_other_attributes=_allow_other_attributes is not False,
            allow_other_inputs=_allow_other_inputs is True,
            check=_check,
        ).outputs
        return made[0] if len(made) == 1 else made


OPERATORS = PatternBuilder()


def _value(value: Any) -> Var:
    """Return the pattern for an input: a constant for a number, a checked value for a function."""
    if isinstance(value, Var):
        return value
    if is_of_onnxscript(value):
        from onnx_passes.rewrite.onnxscript_patterns import value_of

        return value_of(value)
    if isinstance(value, Number) or _is_list_of(value, Number):
        return ConstantPattern(value)
    if callable(value):
        return Var(None, check=value)
    raise TypeError(f"{type(value).__name__} is no value of a pattern")


def _attribute(value: Any) -> AttributePattern:
    if isinstance(value, AttributePattern):
        return value
    if is_of_onnxscript(value):
        from onnx_passes.rewrite.onnxscript_patterns import attribute_of

        return attribute_of(value)
    if type(value) is Var:
        if value.check_method is not None:
            raise ValueError("a variable for an attribute has a check, which only values can have")
        return AttributePattern(value.name, can_match_none=value.can_match_none)
    if isinstance(value, Number | str) or _is_list_of(value, Number) or _is_list_of(value, str):
        return AttributeConstant(value)
    raise TypeError(f"{type(value).__name__} is no attribute of a pattern")


def _is_list_of(value: Any, kind: Any) -> bool:
    return isinstance(value, Sequence) and all(isinstance(item, kind) for item in cast(Sequence[object], value))


def build_pattern(function: Callable[..., Any], rule: str) -> GraphPattern:
    """Build the pattern that a function describes: it is called with ``op`` and a variable for each parameter."""
    try:
        variables = [Var(name) for name in list(inspect.signature(function).parameters)[1:]]
        returned: Any = function(OPERATORS, *variables)
        several = cast("Sequence[Any]", returned if isinstance(returned, list | tuple) else [returned])
        built = GraphPattern(variables, [_value(value) for value in several])
    except Exception as error:
        raise RegistrationError(
            f"the pattern of rule '{rule}' cannot be built: {error}",
            where=source_of(function),
            hint="a pattern returns one value or a list of values built from its arguments",
        ) from error
    inner = {value for node in depths(built.output_nodes) for value in node.inputs}
    computed = [
        value in inner if isinstance(value, OrValue) else not may_be_uncomputed(value) for value in built.outputs
    ]
    if not built.output_nodes or not all(computed):
        raise RegistrationError(
            f"the pattern of rule '{rule}' returns something that it does not compute",
            where=source_of(function),
            hint="return op.Something(…)",
        )
    return built


def choices(pattern: Var | None) -> Sequence[tuple[Any, Var]]:
    """Return the alternatives of an ``OrValue`` with their tags; empty for any other value."""
    return pattern.choices if isinstance(pattern, OrValue) else ()


def children(pattern: Var | None) -> Iterator[NodePattern]:
    """Iterate over the node patterns that may produce a value: several for an alternative."""
    if isinstance(pattern, ResultPattern):
        yield pattern.node
    for _, choice in choices(pattern):
        yield from children(choice)


def may_be_uncomputed(pattern: Var | None) -> bool:
    """Return whether a value may also be a variable, a constant or missing."""
    alternatives = choices(pattern)
    if alternatives:
        return any(may_be_uncomputed(choice) for _, choice in alternatives)
    return not isinstance(pattern, ResultPattern)


def names(pattern: GraphPattern, nodes: Iterable[NodePattern]) -> tuple[str, ...]:
    """List the names that a match may bind: variables, values, attributes and tags."""
    nodes = tuple(nodes)
    found = [value.name for value in (*pattern.inputs, *pattern.outputs)]
    found.extend(attribute.name for node in nodes for attribute in node.attributes.values())
    for value in _values(nodes):
        found.extend((value.name, value.tag_var if isinstance(value, OrValue) else None))
    return tuple(dict.fromkeys(name for name in found if name is not None))


def has_checks(nodes: Iterable[NodePattern]) -> bool:
    """Return whether a node or value of a pattern comes with a check of its own."""
    nodes = tuple(nodes)
    return any(part.check_method is not None for part in (*nodes, *_values(nodes)))


def _values(nodes: Iterable[NodePattern]) -> Iterator[Var]:
    waiting = [value for node in nodes for value in (*node.outputs, *node.inputs)]
    while waiting:
        value = waiting.pop()
        if value is not None:
            yield value
            waiting.extend(choice for _, choice in choices(value))


def depths(roots: Sequence[NodePattern]) -> dict[NodePattern, int]:
    """Map each node pattern below the roots to the number of nodes on the longest way down from it."""
    found: dict[NodePattern, int] = {}

    def visit(node: NodePattern) -> int:
        if node not in found:
            found[node] = 1 + max((visit(child) for value in node.inputs for child in children(value)), default=0)
        return found[node]

    for root in roots:
        visit(root)
    return found


def refuse_misspelt(nodes: Iterable[NodePattern], rule: str, source: str) -> None:
    """Refuse a pattern with an unknown operator whose name resembles one of ONNX."""
    for node in nodes:
        hint = None if node.operator is None else misspelt(*node.operator)
        if hint is not None:
            raise RegistrationError(
                f"the pattern of rule '{rule}' has an operator '{node.op_type}' that ONNX does not have",
                where=source,
                hint=hint,
            )
