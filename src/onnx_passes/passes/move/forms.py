"""The form of a move: an operator that reads from a mover becomes a mover that reads from the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import onnx_ir as ir
from onnxscript.rewriter.pattern import ANY_VALUE, OrValue

from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.shapes import Dim
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.move.steady import is_computed_as_max, is_power_of_integers
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

_FAR = 64
"""How many operators may lie between a fork and where its ways meet again."""

Move = Callable[[Builder, ir.Node, ir.Node], Rewritten]
"""Takes the builder, the lower and the upper node; returns the new results of the lower one, or a refusal."""


class MovePass(Transformation, RewriteRuleSetPass):
    """A pass whose rules are made by ``moves``, when they are first needed."""

    needs = ("shape-inference",)
    moves: ClassVar[partial[list[Rule]]]

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Name ``moves``, unless it is there."""
        return () if hasattr(cls, "moves") else ("moves",)

    def rules(self) -> Sequence[Rule]:
        """Make the rules."""
        return self.moves()


def exchange(
    lower: str,
    upper: str | Sequence[str],
    move: Move,
    *,
    slot: int = 0,
    outputs: int = 1,
    forks: Forks = "exclusive",
    name: str = "",
) -> Rule:
    """Make a rule for a node that reads, at an input, from a node of one of some operators.

    Where the inputs of the lower operator may be swapped, the upper node may be at any of them.
    """
    uppers = (upper,) if isinstance(upper, str) else tuple(upper)
    results = [f"result{index}" for index in range(outputs)]
    commutes = traits_of(lower).commutative

    def pattern(op: Op) -> Var:
        read = [getattr(op, one)(_allow_other_inputs=True, _outputs=[f"moved{i}"]) for i, one in enumerate(uppers)]
        moved = read[0] if len(read) == 1 else OrValue(read)
        inputs = [moved, ANY_VALUE] if commutes else [*[ANY_VALUE] * slot, moved]
        return getattr(op, lower)(*inputs, _allow_other_inputs=True, _outputs=results)

    def rewrite(op: Builder, **bound: Any) -> Rewritten:
        moved = next(value for key, value in bound.items() if key.startswith("moved") and value is not None)
        nodes = bound["result0"].producer(), moved.producer()
        if len(nodes[0].outputs) > outputs:
            return no("it has more results", at=bound["result0"])
        if any(is_computed_as_max(op, node) for node in nodes):
            return no("the sign of zeros depends on the shape", at=moved)
        if any(map(is_power_of_integers, nodes)):
            return no("how powers of integers overflow depends on the shape of the exponent", at=moved)
        return move(op, *nodes)

    place = f"At{slot}" if slot else ""
    return Rule(pattern, rewrite, name=name or f"{lower}{place}", commute=commutes, forks=forks, source=source_of(move))


def slots(operator: str) -> range:
    """List the inputs of an elementwise operator at which a mover may stand; one, if they may be swapped."""
    traits = traits_of(operator)
    return range(1 if traits.commutative else traits.arity)


def operands(node: ir.Node) -> tuple[list[ir.Value], list[ir.Value | None]]:
    """Return the inputs of an elementwise node that are broadcast against each other, and the others."""
    count = traits_of(node).arity or len(node.inputs)
    data = [value for value in node.inputs[:count] if value is not None]
    return data, list(node.inputs[count:])


def shaped(value: ir.Value, dims: Sequence[Dim] | None) -> ir.Value:
    """Note the shape of a new value, where it is known: the next rule may want to know it."""
    if dims is not None:
        value.shape = ir.Shape(dims)
    return value


def is_forked(value: ir.Value, reader: ir.Node, passes: Callable[[ir.Node], bool] | None = None) -> bool:
    """Tell whether moving a value past one reader would leave it behind for others for good.

    It would not where each of the others takes up what comes of the result of this one as well, and nothing else, past
    operators that ``passes`` lets through (elementwise ones of one operand that is not constant, if not said): the
    mover follows there.
    """
    if value.is_graph_output():
        return True
    through = passes or _is_elementwise_of_one
    return any(user is not reader and not _joins(user, value, reader, through) for user in value.consumers())


def _joins(user: ir.Node, value: ir.Value, reader: ir.Node, passes: Callable[[ir.Node], bool]) -> bool:
    if traits_of(user).kind != "elementwise" or value not in user.inputs:
        return False
    result = reader.outputs[0]
    for _ in range(_FAR):
        users = list(result.consumers())
        if len(users) != 1 or result.is_graph_output():
            return False
        if users[0] is user:
            return set(user.inputs) == {value, result}
        if not passes(users[0]):
            return False
        result = users[0].outputs[0]
    return False


def _is_elementwise_of_one(node: ir.Node) -> bool:
    return traits_of(node).kind == "elementwise" and sum(not is_constant(v) for v in node.inputs if v is not None) == 1
