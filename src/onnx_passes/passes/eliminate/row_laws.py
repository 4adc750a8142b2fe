"""The law of rows that are flattened for a MatMul, and stacked again behind it."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dims, rank
from onnx_passes.passes.move.rows import SIZES_TO_TRY, stacked_rows
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no


def _product_of_stacked(op: Builder, flat: ir.Value, w: ir.Value, product: ir.Value, result: ir.Value) -> Rewritten:
    """Multiply the rows as they are stacked in the result."""
    sizes = dims(w)
    if sizes is None or len(sizes) != 2:
        return no("the right operand is not known to be a matrix", at=w)
    if (rank(result) or 0) < 2:
        return no("the result is no stack of rows", at=result)
    rows = stacked_rows(op, flat, product, result, sizes, reshape_pays=True)
    return rows if isinstance(rows, Refusal) else op.MatMul(rows, w)


_law = Vocabulary(_product_of_stacked).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateReshapeOfMatmul(LawPass):
    """Remove reshapes that only flatten the rows of a MatMul and stack its result again.

    Rewrites: ``Reshape(MatMul(Reshape(x, s), w), t)`` → ``MatMul(x, w)``, if the reshapes keep the rows of ``x`` and
              those of the product; → ``MatMul(Reshape(x, [0, 0, 4]), w)``, if ``x`` splits the rows.
    Refuses:  a ``w`` that is not known to be a matrix; rows that are empty, or of unknown size; a stack that is not
              known to be that of ``x``, or to be reached by a constant target; a product that is used elsewhere.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g ({kind}[{lead},3] x, {kind}[3,2] w) => ({kind}[{lead},2] y)
                    <int64[2] s = {{-1, 3}}, {shape}, {kind}[A,3] r, {kind}[A,2] p> {{
                        r = Reshape (x, s) p = MatMul (r, w) y = Reshape (p, t)
                    }}"""
            for kind in ("float", "double", "float16", "int32", "uint64")
            for lead, shape in (("2,5", "int64[3] t = {2, 5, 2}"), ("2,N,2", "int64[4] t = {2, -1, 2, 2}"))
        ),
        *(
            f"""g (float[N,M,{x}] x, float[4,2] w) => (float[N,M,2] y)
                    <int64[2] s = {{-1, 4}}, int64[1] n = {{2}}, float[A,4] r, float[A,2] p> {{
                        r = Reshape (x, s) p = MatMul (r, w)
                        l = Shape <start = 0, end = 2> (x) t = Concat <axis = 0> (l, n) y = Reshape (p, t)
                    }}"""
            for x in ("4", "2,2", "1,2,2")
        ),
        **SIZES_TO_TRY,
    )
    laws = (
        _law(
            "Reshape(product := (flat := Reshape(x, s)) @ w, t) → product_of_stacked(flat, w, product, result)",
            name="EliminateReshapeOfMatmul",
            forks="duplicate",
        ),
    )
