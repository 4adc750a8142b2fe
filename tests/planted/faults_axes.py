"""Rules that are right for most axes: one application in the host mixes them up."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import (
    RewriteRulePass,
    Transformation,
    constant,
    no,
    passes,
)
from tests.planted.planting import Fault, perm_of, rows, sizes


@passes.verify.equality
class DropsTransposePairs(Transformation, RewriteRulePass):
    """Take every permutation for its own inverse."""

    def pattern(self, op, x):
        inner = op.Transpose(x, _outputs=["inner"])
        return op.Transpose(inner, _outputs=["outer"])

    def check(self, op, x, inner, outer):
        return None is not perm_of(inner) == perm_of(outer) or no("not the same permutation")

    def rewrite(self, op, x, inner, outer):
        return op.Identity(x)


@passes.verify.equality
class ComposesTransposesBackwards(Transformation, RewriteRulePass):
    """Compose two permutations in the wrong order."""

    def pattern(self, op, x):
        inner = op.Transpose(x, _outputs=["inner"])
        return op.Transpose(inner, _outputs=["outer"])

    def check(self, op, x, inner, outer):
        return (perm_of(inner) is not None and perm_of(outer) is not None) or no("no permutation given")

    def rewrite(self, op, x, inner, outer):
        return op.Transpose(x, perm=[perm_of(outer)[axis] for axis in perm_of(inner)])


@passes.verify.equality
class MovesSoftmaxKeepingTheAxis(Transformation, RewriteRulePass):
    """Move a Softmax before a Transpose and forget that its axis moves too."""

    def pattern(self, op, x):
        moved = op.Transpose(x, _outputs=["moved"])
        return op.Softmax(moved, _outputs=["soft"])

    def check(self, op, x, moved, soft):
        return perm_of(moved) is not None or no("no permutation given")

    def rewrite(self, op, x, moved, soft):
        axis = soft.producer().attributes.get_int("axis", -1)
        return op.Transpose(op.Softmax(x, axis=axis), perm=list(perm_of(moved)))


@passes.verify.tolerance
class FoldsPadsOnTheWrongSide(Transformation, RewriteRulePass):
    """Fold a Pad into the Conv after it with begin and end mixed up."""

    def pattern(self, op, x, pads, w):
        return op.Conv(op.Pad(x, pads), w)

    def check(self, op, x, pads, w):
        amounts = constant(pads)
        return amounts is not None and not amounts[[0, 1, 4, 5]].any()

    def rewrite(self, op, x, pads, w):
        _, _, top, left, _, _, bottom, right = constant(pads).tolist()
        return op.Conv(x, w, pads=[bottom, right, top, left])


@passes.verify.tolerance
class ForgetsTheAxisOfLayerNorm(Transformation, RewriteRulePass):
    """Rebuild a normalization with the axis that is the default."""

    def pattern(self, op, x, scale, zero):
        return op.Add(op.LayerNormalization(x, scale), zero)

    def check(self, op, x, scale, zero):
        dims = sizes(scale)
        return (dims is not None and len(dims) == 1 and dims == sizes(zero)) or no("not one of each for a channel")

    def rewrite(self, op, x, scale, zero):
        return op.LayerNormalization(x, scale, zero)


@passes.verify.tolerance
class ForgetsTransB(Transformation, RewriteRulePass):
    """Write Gemm as MatMul and Add; square weights fit either way round."""

    def pattern(self, op, x, w, bias):
        return op.Gemm(x, w, bias, _outputs=["product"])

    def check(self, op, x, w, bias, product):
        dims = sizes(w)
        if dims is None or len(set(dims)) > 1 or w.dtype is not ir.DataType.FLOAT:
            return no("weights are not square", at=w)
        held = product.producer().attributes
        plain = held.get_float("alpha", 1.0) == held.get_float("beta", 1.0) == 1 and not held.get_int("transA", 0)
        return plain or no("more than a product and a sum")

    def rewrite(self, op, x, w, bias, product):
        return op.Add(op.MatMul(x, w), bias)


@passes.verify.tolerance
class TransposesProductsInOrder(Transformation, RewriteRulePass):
    """Transpose a product factor by factor, in the order in which they stand."""

    def pattern(self, op, a, b):
        return op.Transpose(op.MatMul(a, b), perm=[1, 0])

    def check(self, op, a, b):
        dims = sizes(a)
        return (dims is not None and len(dims) == 2 and dims[0] == dims[1] and dims == sizes(b)) or no("not square")

    def rewrite(self, op, a, b):
        return op.MatMul(op.Transpose(a, perm=[1, 0]), op.Transpose(b, perm=[1, 0]))


BLOCK = "a@ = Mul(x, x) b@ = Transpose<perm=[0,2,1]>(a@) c@ = Transpose<perm=[0,2,1]>(b@) y@ = Neg(c@)"


FAULTS = [
    Fault(
        "transpose pair that is no identity",
        DropsTransposePairs,
        rows(
            "float[3,3,3] x",
            BLOCK,
            odd={6: BLOCK.replace("[0,2,1]", "[1,2,0]"), 7: BLOCK.replace("[0,2,1]", "[2,1,0]")},
        ),
        "axes",
        culprit=6,
    ),
    Fault(
        "permutations composed in the wrong order",
        ComposesTransposesBackwards,
        rows("float[2,2,2] x", BLOCK, odd={4: BLOCK.replace("[0,2,1]", "[1,2,0]", 1)}, count=10),
        "axes",
        culprit=4,
    ),
    Fault(
        "axis of a moved Softmax",
        MovesSoftmaxKeepingTheAxis,
        rows(
            "float[4,4,4] x",
            "a@ = Abs(x) b@ = Transpose<perm=[1,0,2]>(a@) c@ = Softmax<axis=2>(b@) y@ = Neg(c@)",
            odd={7: "a@ = Abs(x) b@ = Transpose<perm=[1,0,2]>(a@) c@ = Softmax<axis=1>(b@) y@ = Neg(c@)"},
            count=9,
        ),
        "axes",
        culprit=7,
    ),
    Fault(
        "pads on the wrong side",
        FoldsPadsOnTheWrongSide,
        rows(
            "float[1,1,5,5] x",
            "a@ = Neg(x) b@ = Pad(a@, even) c@ = Conv(b@, w) y@ = Relu(c@)",
            odd={5: "a@ = Neg(x) b@ = Pad(a@, uneven) c@ = Conv(b@, w) y@ = Relu(c@)"},
            initializers="int64[8] even = {0,0,1,1,0,0,1,1}, int64[8] uneven = {0,0,2,1,0,0,0,1}, "
            "float[1,1,2,2] w = {1.0, 2.0, -3.0, 0.5}",
        ),
        "axes",
        culprit=5,
    ),
    Fault(
        "axis of a LayerNormalization",
        ForgetsTheAxisOfLayerNorm,
        rows(
            "float[2,3,4] x",
            "a@ = Mul(x, x) b@ = LayerNormalization(a@, scale) c@ = Add(b@, bias) y@ = Neg(c@)",
            odd={7: "a@ = Mul(x, x) b@ = LayerNormalization<axis=1>(a@, scale2) c@ = Add(b@, bias) y@ = Neg(c@)"},
            initializers="float[4] scale = {1.0, 2.0, 0.5, 1.5}, float[4] bias = {0.1, 0.2, 0.3, 0.4}, "
            "float[4] scale2 = {1.0, 2.0, 0.5, 1.5}",
        ),
        "axes",
        culprit=7,
    ),
    Fault(
        "square weights the other way round",
        ForgetsTransB,
        rows(
            "float[2,3] x",
            "a@ = Neg(x) b@ = Gemm(a@, w, c) y@ = Relu(b@)",
            odd={8: "a@ = Neg(x) b@ = Gemm<transB=1>(a@, w, c) y@ = Relu(b@)"},
            count=12,
            initializers="float[3,3] w = {1.0, 2.0, -3.0, 0.5, 0.25, 0.75, -1.0, 1.5, 2.5}, "
            "float[3] c = {0.5, 1.0, -1.0}",
        ),
        "weights",
        culprit=8,
    ),
    Fault(
        "factors of a transposed product in the wrong order",
        TransposesProductsInOrder,
        rows(
            "float[3,3] x, float[3,3] z",
            "b@ = MatMul(x, x) c@ = Transpose<perm=[1,0]>(b@) y@ = Neg(c@)",
            odd={2: "b@ = MatMul(x, z) c@ = Transpose<perm=[1,0]>(b@) y@ = Neg(c@)"},
        ),
        "swapped inputs",
        culprit=2,
    ),
]
