"""Put Gemm in the place of products of matrices with a bias, and let it transpose its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.shapes import rank
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_SHAPES = MappingProxyType({"a": ((2, 3), (4, 3)), "b": ((3, 2), (3, 4)), "c": ((2,), (4,), (1,), (4, 1), (1, 4), ())})


@passes.verify.tolerance
@passes.register("fuse")
class FuseGemm(Transformation, RewriteRuleSetPass):
    """Fuse a matrix product, the bias added to it, and transposes of its operands into one Gemm.

    Rewrites: ``MatMul(a, b) + c`` → ``Gemm(a, b, c)``; ``Gemm(a, b) + c`` → ``Gemm(a, b, c)``;
              ``Gemm(Transpose(a), b)`` → ``Gemm<transA>(a, b)``, also for ``b``.
    Refuses:  products that are not known to be of matrices of floats; a ``c`` that is not known to fit into the
              product without enlarging it; a product that is used elsewhere.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("reassoc", "contract", "nsz")
    fuzz_hints = hints(shapes=_SHAPES, dtypes=("float32", "float64", "float16", "int32"))

    def rules(self) -> Sequence[Rule]:
        """Return the rules; those for transpositions leave them where others need them."""
        return [
            Rule(_pattern_matmul, _add, _check_add, name="MatMulAdd"),
            Rule(_pattern_gemm, _add, _check_add, name="GemmAdd"),
            Rule(_pattern_left, _transpose_left, _check_transpose, name="TransposeA", forks="duplicate"),
            Rule(_pattern_right, _transpose_right, _check_transpose, name="TransposeB", forks="duplicate"),
        ]


def _pattern_matmul(op: Any, a: Any, b: Any, c: Any) -> Any:
    return op.Add(op.MatMul(a, b, _outputs=["y"]), c)


def _pattern_gemm(op: Any, a: Any, b: Any, c: Any) -> Any:
    return op.Add(op.Gemm(a, b, _outputs=["y"]), c)


def _pattern_left(op: Any, a: Any, b: Any) -> Any:
    return op.Gemm(op.Transpose(a, _outputs=["turned"]), b, _allow_other_inputs=True, _outputs=["y"])


def _pattern_right(op: Any, a: Any, b: Any) -> Any:
    return op.Gemm(a, op.Transpose(b, _outputs=["turned"]), _allow_other_inputs=True, _outputs=["y"])


def _check_add(match: Match, a: ir.Value, b: ir.Value, c: ir.Value, y: ir.Value) -> Any:
    if match.opset < 11:
        return no("Gemm needs a bias before opset 11, or broadcasts otherwise", at=y)
    if rank(a) != 2 or rank(b) != 2:
        return no("the product is not known to be of matrices", at=y)
    if y.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16):
        return no("the product is not of floats", at=y)
    if c is y:
        return no("the product is added to itself", at=y)
    if not _fits_into(c, y):
        return no("what is added is not known to fit into the product", at=c)
    return yes


def _fits_into(value: ir.Value, whole: ir.Value) -> bool:
    """Tell whether a value is known to broadcast to the shape of another."""
    if value.shape is None or whole.shape is None or len(value.shape) > len(whole.shape):
        return False
    for part, full in zip(reversed(value.shape.dims), reversed(whole.shape.dims), strict=False):
        known = isinstance(part, int) or part.value is not None
        if part != 1 and not (known and part == full):
            return False
    return True


def _add(op: Any, a: ir.Value, b: ir.Value, c: ir.Value, y: ir.Value) -> Any:
    node = y.producer()
    assert node is not None
    attributes = {name: value for name, value in node.attributes.items() if name != "beta"}
    return op.Gemm(a, b, c, **attributes)


def _check_transpose(match: Match, turned: ir.Value) -> Any:
    node = turned.producer()
    assert node is not None
    # Whatever the rank, Gemm takes matrices only.
    perm = node.attributes.get_ints("perm", (1, 0))
    return yes if tuple(perm) == (1, 0) else no("the transposition changes nothing", at=turned)


def _transpose_left(op: Any, a: ir.Value, y: ir.Value) -> Any:
    return _transposed(op, y, 0, a, "transA")


def _transpose_right(op: Any, b: ir.Value, y: ir.Value) -> Any:
    return _transposed(op, y, 1, b, "transB")


def _transposed(op: Any, y: ir.Value, index: int, x: ir.Value, attribute: str) -> Any:
    node = y.producer()
    assert node is not None
    inputs = [x if i == index else value for i, value in enumerate(node.inputs)]
    flipped = 1 - node.attributes.get_int(attribute, 0)
    return op.Gemm(*inputs, **{**node.attributes, attribute: flipped or None})
