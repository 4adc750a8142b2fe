"""Laws of Gemm, which can transpose its operands itself."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.permutations import permutation
from onnx_passes.passes.fuse.product_laws import with_flag
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, no, yes


def _swaps_axes(turned: ir.Node) -> Answer:
    return yes if permutation(turned) in ([1, 0], None) else no("it is the identity", at=turned)


_law = Vocabulary(_swaps_axes, with_flag).law
_SWAPS = When("swaps_axes(t)")


@passes.verify.tolerance
@passes.register("reorder")
class AbsorbTransposeIntoGemm(LawPass):
    """Fold transposes of operands into the attributes of Gemm.

    Rewrites: ``Gemm(Transpose(a), b, c)`` → ``Gemm<transA=1>(a, b, c)``, likewise for ``b``; a flag that is already set
              is cleared.
    Refuses:  a transposition that is the identity.
    Exactness:up to rounding; sums of products may be taken in another order, and where they overflow, infinities and
              NaN may change.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    laws = (
        _law("Gemm(t := Transpose(x), ...) → with_flag(result, t, 0)", _SWAPS, forks="duplicate"),
        _law("Gemm(_, t := Transpose(x), ...) → with_flag(result, t, 1)", _SWAPS, name="GemmAt1", forks="duplicate"),
    )
