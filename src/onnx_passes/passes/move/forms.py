"""Rules that exchange an operator with the data movement before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.shapes import Dim
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.move.steady import is_computed_as_max, is_power_of_integers
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import ANY_VALUE, Op, OrValue, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

_FAR = 64
"""Maximum number of operators between a fork and the join of its branches."""

Move = Callable[[Builder, ir.Node, ir.Node], Rewritten]
"""Builds the new results of the lower node from the lower and the upper node, or refuses."""


class MovePass(Transformation, RewriteRuleSetPass):
    """Base of passes whose rules are built by ``moves``, when they are first needed."""

    needs = ("shape-inference",)
    moves: ClassVar[partial[list[Rule]]]

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Return ``moves`` if it is not defined."""
        return () if hasattr(cls, "moves") else ("moves",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules of ``moves``."""
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
    """Make a rule for a node ``lower`` with an input from a node of one of the operators ``upper``.

    If the lower operator is commutative, the upper node may produce any of its inputs.
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
            return no("the overflow of integer powers depends on the shape of the exponent", at=moved)
        return move(op, *nodes)

    place = f"At{slot}" if slot else ""
    return Rule(pattern, rewrite, name=name or f"{lower}{place}", commute=commutes, forks=forks, source=source_of(move))


def slots(operator: str) -> range:
    """Return the input indices of an elementwise operator that a rule needs; one if it is commutative."""
    traits = traits_of(operator)
    return range(1 if traits.commutative else traits.arity)


def operands(node: ir.Node) -> tuple[list[ir.Value], list[ir.Value | None]]:
    """Return the inputs of an elementwise node that are broadcast against each other, and the others."""
    count = traits_of(node).arity or len(node.inputs)
    data = [value for value in node.inputs[:count] if value is not None]
    return data, list(node.inputs[count:])


def shaped(value: ir.Value, dims: Sequence[Dim] | None) -> ir.Value:
    """Set the shape of a new value if it is known, as later rules may need it."""
    if dims is not None:
        value.shape = ir.Shape(dims)
    return value


def is_forked(value: ir.Value, reader: ir.Node, passes: Callable[[ir.Node], bool] | None = None) -> bool:
    """Return whether moving ``value`` past one consumer would leave it behind for other consumers.

    It would not if each other consumer joins ``value`` with a result computed from that of ``reader``, through
    operators for which ``passes`` holds (by default elementwise ones with one non-constant operand): the moved node
    then follows to the join.
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
