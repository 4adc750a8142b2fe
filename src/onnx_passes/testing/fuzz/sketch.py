"""From a pattern to a sketch: alternatives and wildcards are chosen; types, shapes and values are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import onnx

from onnx_passes.graph.schemas import Signature, schema_of, signature
from onnx_passes.ops.definition import DEFINITIONS
from onnx_passes.rewrite.patterns import AnyValue, ConstantPattern, NodePattern, ResultPattern, Var, choices
from onnx_passes.rewrite.rule import Rule
from onnx_passes.testing.fuzz.draws import Draws, UnbuildableError

_UNARY = ("Relu", "Abs", "Neg", "Identity", "Sigmoid", "Exp", "Not", "Floor", "Sqrt", "Tanh", "Sign", "BitwiseNot")
_BINARY = ("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow", "Less", "Equal", "And", "BitwiseAnd", "PRelu", "Mod")
_TERNARY = ("Where", "Clip", "Max", "Sum")
_WILDCARDS = {1: _UNARY, 2: _BINARY, 3: _TERNARY}
_OTHERS = ("ReduceSum", "ReduceMax", "Concat", "Transpose", "Reshape", "MatMul", "Softmax", "Gather", "Squeeze")
OPSETS = (20, 20, 20, 21, 18)


@dataclass(eq=False)
class Leaf:
    """Value from outside the pattern: a variable, or with ``fixed`` a constant of the pattern."""

    name: str
    fixed: Any = None
    optional: bool = False


@dataclass(eq=False)
class OperatorResult:
    """Output of an operator."""

    op: OpenOperator
    index: int


Slot = Leaf | OperatorResult


@dataclass(eq=False)
class OpenOperator:
    """Operator whose attributes and outputs are still open."""

    pattern: NodePattern
    domain: str
    op_type: str
    inputs: list[Slot | None] = field(default_factory=list["Slot | None"])
    signature: Signature | None = None
    results: dict[int, OperatorResult] = field(default_factory=dict[int, OperatorResult])

    def result(self, index: int) -> OperatorResult:
        """Return the unique object for an output."""
        return self.results.setdefault(index, OperatorResult(self, index))


@dataclass
class Sketch:
    """Operators in topological order, and the outputs of the pattern."""

    opset: int
    ops: list[OpenOperator] = field(default_factory=list[OpenOperator])
    roots: list[OpenOperator] = field(default_factory=list[OpenOperator])
    outputs: list[OperatorResult] = field(default_factory=list[OperatorResult])

    def leaves(self) -> list[Leaf]:
        """List the leaves in order, without duplicates."""
        found = dict.fromkeys(slot for op in self.ops for slot in op.inputs if isinstance(slot, Leaf))
        return list(found)


def sketch(rule: Rule, draws: Draws, opset: int | None = None) -> Sketch:
    """Choose among the alternatives of a pattern, and an opset if none is given."""
    drawing = _Drawing(draws, Sketch(draws.choose("opset", OPSETS) if opset is None else opset))
    for root in rule.roots:
        drawing.sketch.roots.append(drawing.op(root))
    for value in rule.pattern.outputs:
        slot = drawing.value(value)
        if not isinstance(slot, OperatorResult):
            raise UnbuildableError("the pattern returns a value that it does not compute")
        drawing.sketch.outputs.append(slot)
    return drawing.sketch


class _Drawing:
    def __init__(self, draws: Draws, into: Sketch) -> None:
        self.draws = draws
        self.sketch = into
        self._ops: dict[NodePattern, OpenOperator] = {}
        self._values: dict[object, Slot | None] = {}

    def op(self, pattern: NodePattern) -> OpenOperator:
        """Sketch an operator and its operands, once."""
        if pattern in self._ops:
            return self._ops[pattern]
        domain, op_type = pattern.operator or self._wildcard(pattern)
        op = OpenOperator(pattern, domain, op_type)
        self._ops[pattern] = op
        op.inputs = [self.value(value) for value in pattern.inputs]
        op.signature = signature(domain, op_type, self.sketch.opset if domain == "" else 1)
        self._add_inputs(op)
        if op.signature is None and domain == "":
            raise UnbuildableError(f"opset {self.sketch.opset} has no {op_type}")
        self.sketch.ops.append(op)
        return op

    def value(self, pattern: Var | None) -> Slot | None:
        """Sketch a value; named and shared values only once."""
        if pattern is None:
            return None
        if isinstance(pattern, AnyValue):
            return Leaf("any")
        key = pattern if isinstance(pattern, ResultPattern) or pattern.name is None else pattern.name
        if key not in self._values:
            self._values[key] = self._new_value(pattern)
        return self._values[key]

    def _new_value(self, pattern: Var) -> Slot | None:
        alternatives = choices(pattern)
        if alternatives:
            which = self.draws.choose(f"or:{len(self._values)}", range(len(alternatives)))
            return self.value(alternatives[which][1])
        if isinstance(pattern, ResultPattern):
            return self.op(pattern.node).result(pattern.index)
        if isinstance(pattern, ConstantPattern):
            return Leaf("fixed", fixed=pattern.value)
        name = pattern.name or "unnamed"
        if pattern.can_match_none and self.draws.often(f"absent:{name}", percent=35):
            return None
        return Leaf(name, optional=pattern.can_match_none)

    def _add_inputs(self, op: OpenOperator) -> None:
        """Add inputs to an operator that may have more than the pattern names."""
        if not op.pattern.allow_other_inputs:
            return
        for definition in (DEFINITIONS.get((op.domain, op.op_type)) or ())[:1]:
            op.inputs.extend(Leaf(f"{op.op_type}.{given.name}") for given in definition.inputs[len(op.inputs) :])
        if op.signature is None:
            return
        limit = len(op.inputs) + 2 if op.signature.variadic_inputs else len(op.signature.inputs)
        more = self.draws.choose(f"more:{op.op_type}", range(max(0, limit - len(op.inputs)) + 1))
        least = _least_inputs(op.op_type, self.sketch.opset) if op.domain == "" else 0
        for number in range(max(more, least - len(op.inputs))):
            op.inputs.append(Leaf(f"{op.op_type}.{number}"))

    def _wildcard(self, pattern: NodePattern) -> tuple[str, str]:
        arity = sum(value is not None for value in pattern.inputs)
        domain = pattern.domain if pattern.may_be_in(pattern.domain) else ""
        usual: Sequence[str] = _WILDCARDS.get(arity, _TERNARY)
        if pattern.allow_other_inputs:
            usual = (*_UNARY, *_BINARY, *_TERNARY, *_OTHERS)
        names = [name for name in usual if pattern.may_be(name)]
        if not names:
            names = [name for name in _OTHERS if pattern.may_be(name)] or _any_operators(pattern, arity)
        return domain, self.draws.choose(f"op:{pattern.op_type}", names)


def _any_operators(pattern: NodePattern, arity: int) -> list[str]:
    schemas = cast(Any, onnx.defs.get_all_schemas())
    return sorted(
        {s.name for s in schemas if s.domain == "" and s.min_input <= arity <= s.max_input and pattern.may_be(s.name)}
    )


def _least_inputs(op_type: str, opset: int) -> int:
    schema = schema_of("", op_type, opset)
    return 0 if schema is None else schema.min_input
