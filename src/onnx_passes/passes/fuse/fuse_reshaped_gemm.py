"""Let a product with a bias read stacked rows as they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph import annotations
from onnx_passes.graph.arguments import argument, integer
from onnx_passes.graph.constants import constant_tensor, grows
from onnx_passes.graph.shapes import Dim, dims, rank, same_dim
from onnx_passes.passes.move.rows import SIZES_TO_TRY, stacked_rows
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import Refusal, no

_BROADCASTING = 7
"""The opset since which operands of different ranks broadcast."""


@passes.verify.tolerance
@passes.register("fuse")
class FuseReshapedGemm(Transformation, RewriteRulePass):
    """Replace a Gemm between reshapes that flatten and stack rows by MatMul and Add.

    Rewrites: ``Reshape(Gemm(Reshape(x, s), w, c), t)`` → ``MatMul(x, w) + c``, if the reshapes keep the rows of ``x``
              and those of the product; → ``MatMul(Reshape(x, [0, 0, 4]), w) + c``, if ``x`` splits the rows and ``t``
              is computed; a constant ``w`` is transposed at once where Gemm does so.
    Refuses:  factors; a ``w`` that is to be transposed and is not constant, or large and used elsewhere; a ``c`` that
              differs from row to row; results that are matrices; rows that are empty, or of unknown size; a stack that
              is not known to be that of ``x``, or to be reached by a constant target; a product that is used elsewhere.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("reassoc", "contract", "nsz")
    forks: ClassVar[Forks] = "duplicate"
    fuzz_hints = hints(
        *(
            f"""g ({kind}[{lead},3] x, {kind}[3,2] w, {kind}[{bias}] c) => ({kind}[{lead},2] y)
                    <int64[2] s = {{-1, 3}}, {shape}, {kind}[A,3] r, {kind}[A,2] p> {{
                        r = Reshape (x, s) p = Gemm (r, w, c) y = Reshape (p, t)
                    }}"""
            for kind in ("float", "double", "float16")
            for bias in ("2", "1", "1,2", "1,1")
            for lead, shape in (("2,5", "int64[3] t = {2, 5, 2}"), ("2,N,2", "int64[4] t = {2, -1, 2, 2}"))
        ),
        *(
            f"""g (float[N,M,{x}] x, float[2] c) => (float[N,M,2] y) <int64[2] s = {{-1, 4}}, int64[1] n = {{2}},
                    float[2,4] w = {{1, 2, -3, 0.5, 4, -1, 7, 0}}, float[A,4] r, float[A,2] p> {{
                        r = Reshape (x, s) p = Gemm <transB = 1> (r, w, c)
                        l = Shape <start = 0, end = 2> (x) t = Concat <axis = 0> (l, n) y = Reshape (p, t)
                    }}"""
            for x in ("4", "2,2", "1,2,2")
        ),
        **SIZES_TO_TRY,
    )

    def pattern(self, op: Any, x: Any, s: Any, w: Any, t: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match a product, with or without a bias, between two reshapes."""
        flat = op.Reshape(x, s, _outputs=["flat"])
        product = op.Gemm(flat, w, _allow_other_inputs=True, _outputs=["product"])
        return op.Reshape(product, t, _outputs=["result"])

    def rewrite(self, op: Any, w: ir.Value, flat: ir.Value, product: ir.Value, result: ir.Value) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Multiply the rows as they are stacked in the result, and add the bias to each of them."""
        gemm, sizes = product.producer(), dims(w)
        assert gemm is not None
        if op.opset < _BROADCASTING:
            return no("before opset 7, sums broadcast otherwise", at=gemm)
        if product.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16):
            return no("the product is not of floats", at=product)
        if (rank(result) or 0) < 3:
            return no("the result is a matrix, or of unknown rank", at=result)
        bias, turned = argument(gemm, 2), integer(gemm, "transB", 0)
        if turned is None or not _is_plain(gemm, bias):
            return no("the product has factors, or transposes its rows", at=gemm)
        if sizes is None or len(sizes) != 2:
            return no("the right operand is not known to be a matrix", at=w)
        size, columns = reversed(sizes) if turned else sizes
        if bias is not None and not _is_same_for_all_rows(bias, columns):
            return no("the bias is not known to be the same for all rows", at=bias)
        rows = stacked_rows(op, flat, product, result, (size, columns), reshape_pays=False)
        matrix = _transposed(op, w) if turned else w
        for found in (rows, matrix):
            if isinstance(found, Refusal):
                return found
        return op.MatMul(rows, matrix) if bias is None else op.Add(op.MatMul(rows, matrix), bias)


def _is_plain(gemm: ir.Node, bias: ir.Value | None) -> bool:
    """Tell whether a Gemm multiplies and adds its operands as they are, apart from the right one."""
    factors = ("alpha",) if bias is None else ("alpha", "beta")
    given = [gemm.attributes.get(name) for name in factors]
    return integer(gemm, "transA", 0) == 0 and all(
        factor is None or (not factor.is_ref() and factor.as_float() == 1) for factor in given
    )


def _is_same_for_all_rows(bias: ir.Value, columns: Dim) -> bool:
    sizes = dims(bias)
    if sizes is None or len(sizes) > 2:
        return False
    return all(size == 1 for size in sizes[:-1]) and all(size == 1 or same_dim(size, columns) for size in sizes[-1:])


def _transposed(op: Any, w: ir.Value) -> ir.Value | Refusal:
    tensor = constant_tensor(w)
    if tensor is None:
        return no("the matrix is to be transposed and not constant", at=w)
    if annotations.get(w):
        return no("the matrix is annotated with a data type", at=w)
    if grows(w):
        return no("the matrix is to be transposed and used elsewhere, too", at=w)
    return op.initializer(ir.Tensor(np.ascontiguousarray(tensor.numpy().T), dtype=tensor.dtype), w.name)
