"""Laws of Expand nodes that broadcasting makes redundant."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integers
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import Dim, broadcast, dims, is_integral, same_dim, stays
from onnx_passes.graph.traits import traits_of
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_OPERATORS = (
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
    "Where",
)


def _widens_nothing(node: ir.Node) -> Answer:
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


def _without(wide: ir.Value, x: ir.Value, node: ir.Node) -> list[ir.Value | None]:
    """Return the operands of a node with the expanded one replaced by the original."""
    return [x if value is wide else value for value in node.inputs]


def _keeps_result(node: ir.Node, wide: ir.Value, x: ir.Value) -> Answer:
    result = node.outputs[0]
    if node.op_type == "Where" and not is_integral(result):
        return no("the sign of a zero may change", at=result)
    shape: tuple[Dim, ...] | None = ()
    for value in _without(wide, x, node):
        shape = broadcast(shape, dims(value))
    wanted = dims(result)
    if shape is None or wanted is None or len(shape) != len(wanted):
        return no("the result may become smaller", at=x)
    same = all(same_dim(p, q) for p, q in zip(shape, wanted, strict=True))
    return yes if same else no("the result may become smaller", at=x)


def _read_past(op: Builder, node: ir.Node, wide: ir.Value, x: ir.Value) -> Rewritten:
    return op.like(node, _without(wide, x, node))


_law = Vocabulary(_keeps_result, _read_past, _widens_nothing).law


def _broadcasting() -> Iterator[Law]:
    """Yield a law for each operand position of each broadcasting operator."""
    for f in _OPERATORS:
        traits = traits_of(f)
        for place in range(1 if traits.commutative else traits.arity):
            operands = ["y", "z"][: traits.arity - 1]
            operands.insert(place, "wide := Expand(x, s)")
            yield _law(
                f"{f}({', '.join(operands)}) → read_past(result, wide, x)",
                When("keeps_result(result, wide, x)"),
                name=f"{f}OfExpand{place}",
                forks="duplicate",
            )


@passes.verify.equality
@passes.register("eliminate")
class EliminateExpand(LawPass):
    """Remove Expand nodes that have no effect, or are redundant because of broadcasting.

    Rewrites: ``Expand(x, s)`` → ``x``, if the shape stays; ``Add(Expand(x, s), y)`` → ``Add(x, y)``, and likewise for
              other broadcasting operators, if the result keeps its shape.
    Refuses:  unknown shapes; ``Pow``, ``Max``, ``Min`` and ``Where`` of floats, for which the broadcast loops of ONNX
              Runtime round differently or change signs of zeros.
    Exactness: bit-exact.
    """

    laws = (_law("Expand(x, ...) → x", When("widens_nothing(result)")), *_broadcasting())
