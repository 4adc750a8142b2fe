"""Let MatMul read stacked rows as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.shapes import dims, rank
from onnx_passes.passes.eliminate.forms import examples
from onnx_passes.passes.move.rows import SIZES_TO_TRY, stacked_rows
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import Refusal, no


@passes.verify.equality
@passes.register("eliminate")
class EliminateReshapeOfMatmul(Transformation, RewriteRulePass):
    """Remove reshapes that only flatten the rows of a MatMul and stack its result again.

    Rewrites: ``Reshape(MatMul(Reshape(x, s), w), t)`` → ``MatMul(x, w)``, if the reshapes keep the rows of ``x`` and
              those of the product; → ``MatMul(Reshape(x, [0, 0, 4]), w)``, if ``x`` splits the rows.
    Refuses:  a ``w`` that is not known to be a matrix; rows that are empty, or of unknown size; a stack that is not
              known to be that of ``x``, or to be reached by a constant target; a product that is used elsewhere.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    forks: ClassVar[Forks] = "duplicate"
    commute: ClassVar[bool] = False
    fuzz_hints: ClassVar[Mapping[str, Any]] = {
        **examples(
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
        ),
        **SIZES_TO_TRY,
    }

    def pattern(self, op: Any, x: Any, s: Any, w: Any, t: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match a product between two reshapes."""
        flat = op.Reshape(x, s, _outputs=["flat"])
        return op.Reshape(op.MatMul(flat, w, _outputs=["product"]), t, _outputs=["result"])

    def rewrite(self, op: Any, w: ir.Value, flat: ir.Value, product: ir.Value, result: ir.Value) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Multiply the rows as they are stacked in the result."""
        sizes = dims(w)
        if sizes is None or len(sizes) != 2:
            return no("the right operand is not known to be a matrix", at=w)
        if (rank(result) or 0) < 2:
            return no("the result is no stack of rows", at=result)
        rows = stacked_rows(op, flat, product, result, sizes, reshape_pays=True)
        return rows if isinstance(rows, Refusal) else op.MatMul(rows, w)
