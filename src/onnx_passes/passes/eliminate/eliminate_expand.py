"""Remove expansions that widen nothing, or only what is broadcast anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integers
from onnx_passes.graph.shapes import Dim, broadcast, dims, is_integral, same_dim, stays
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.eliminate.forms import bypass
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_BROADCAST = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
)


@passes.verify.equality
@passes.register("eliminate")
class EliminateExpand(Transformation, RewriteRuleSetPass):
    """Remove Expand nodes without effect, and those that broadcasting makes redundant.

    Rewrites: ``Expand(x, s)`` → ``x``, if the shape stays; ``Add(Expand(x, s), y)`` → ``Add(x, y)`` and so for other
              operators that broadcast, if the result keeps its shape.
    Refuses:  shapes that are not known; ``Pow``, ``Max``, ``Min`` and ``Where`` of floats, of which ONNX Runtime rounds
              results or gives signs to zeros another way if it broadcasts.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return the rule for one node, and one for each operand of an operator that broadcasts."""
        return [bypass("Expand", _widens_nothing), *_broadcasting()]


def _broadcasting() -> Iterator[Rule]:
    for name in (*_BROADCAST, "Where"):
        traits = traits_of(name)
        for position in range(1 if traits.commutative else traits.arity):
            yield _behind(name, traits.arity, position)


def _widens_nothing(node: ir.Node) -> Any:
    x, target = node.inputs[0], argument(node, 1)
    if stays(node) or (x is not None and _is_shape_of(target, x)):
        return yes
    sizes, shape = integers(node, 1), dims(x)
    if sizes == []:
        return yes
    if sizes is None or shape is None:
        return no("the shapes are not known", at=node)
    fits = len(sizes) <= len(shape) and all(
        size in (1, dim) for size, dim in zip(sizes[::-1], shape[::-1], strict=False)
    )
    return yes if fits else no("the shape changes, or is not known", at=node)


def _is_shape_of(target: ir.Value | None, x: ir.Value) -> bool:
    node = None if target is None else target.producer()
    if node is None or (node.domain, node.op_type) != ("", "Shape"):
        return False
    return node.inputs[0] is x and not node.attributes


def _behind(op_type: str, arity: int, position: int) -> Rule:
    def operands(op: Any, x: Any, s: Any, *others: Any) -> Any:
        inputs = list(others)
        inputs.insert(position, op.Expand(x, s, _outputs=["wide"]))
        return getattr(op, op_type)(*inputs, _outputs=["result"])

    def pattern_of_two(op: Any, x: Any, s: Any, y: Any) -> Any:
        return operands(op, x, s, y)

    def pattern_of_three(op: Any, x: Any, s: Any, y: Any, z: Any) -> Any:
        return operands(op, x, s, y, z)

    pattern = pattern_of_two if arity == 2 else pattern_of_three
    return Rule(pattern, _read_past, _check_result, name=f"{op_type}OfExpand{position}", forks="duplicate")


def _without(wide: ir.Value, x: ir.Value, result: ir.Value) -> list[ir.Value | None]:
    """List the operands of a node as they were before one of them was expanded."""
    node = result.producer()
    assert node is not None
    return [x if value is wide else value for value in node.inputs]


def _check_result(op: Match, x: ir.Value, wide: ir.Value, result: ir.Value) -> Any:
    if op.root.op_type == "Where" and not is_integral(result):
        return no("the sign of a zero may change", at=result)
    shape: tuple[Dim, ...] | None = ()
    for value in _without(wide, x, result):
        shape = broadcast(shape, dims(value))
    wanted = dims(result)
    if shape is None or wanted is None or len(shape) != len(wanted):
        return no("the result may become smaller", at=x)
    same = all(same_dim(p, q) for p, q in zip(shape, wanted, strict=True))
    return yes if same else no("the result may become smaller", at=x)


def _read_past(op: Any, x: ir.Value, wide: ir.Value, result: ir.Value) -> Any:
    node = result.producer()
    assert node is not None
    return getattr(op, node.op_type)(*_without(wide, x, result), **node.attributes)
