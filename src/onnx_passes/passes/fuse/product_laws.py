"""Laws of matrix products: consecutive products, bias, transposed operands, and reshaped rows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph import annotations
from onnx_passes.graph.arguments import argument, integer
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor, finite_constant, grows
from onnx_passes.graph.shapes import Dim, dims, is_common_float, rank, same_dim
from onnx_passes.ops.number_systems.constants import rounded
from onnx_passes.passes.move.rows import SIZES_TO_TRY, stacked_rows
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Refusal, Rewritten, no, yes

_BROADCASTING = 7
"""The first opset in which operands of different ranks broadcast."""


def _is_product_of_floats(y: ir.Value, a: ir.Value, b: ir.Value) -> Answer:
    if rank(a) != 2 or rank(b) != 2:
        return no("the product is not known to be of matrices", at=y)
    return yes if is_common_float(y) else no("the product is not of floats", at=y)


def _fits_into(value: ir.Value, whole: ir.Value) -> bool:
    """Return whether a value is known to broadcast to the shape of another."""
    if value.shape is None or whole.shape is None or len(value.shape) > len(whole.shape):
        return False
    for part, full in zip(reversed(value.shape.dims), reversed(whole.shape.dims), strict=False):
        known = isinstance(part, int) or part.value is not None
        if part != 1 and not (known and part == full):
            return False
    return True


def _with_bias(op: Builder, node: ir.Node, c: ir.Value) -> Rewritten:
    attributes: dict[str, ir.Attr] = {name: value for name, value in node.attributes.items() if name != "beta"}
    return op.Gemm(*node.inputs[:2], c, **attributes)


def _swaps_axes(node: ir.Node) -> Answer:
    # The operands of Gemm are matrices, so that only one permutation changes something.
    perm = node.attributes.get_ints("perm", (1, 0))
    return yes if tuple(perm) == (1, 0) else no("the transposition changes nothing", at=node.outputs[0])


def with_flag(op: Builder, node: ir.Node, turned: ir.Node, slot: int) -> Rewritten:
    """Build the Gemm with its transpose flag of one operand inverted."""
    flag = ("transA", "transB")[slot]
    given = integer(node, flag, 0)
    if given is None:
        return no(f"attribute '{flag}' is a parameter of a function", at=node)
    inputs = [turned.inputs[0] if index == slot else value for index, value in enumerate(node.inputs)]
    return op.like(node, inputs, **{flag: 1 - given or None})


def _merged(op: Builder, x: ir.Value, a: ir.Value, b: ir.Value) -> Rewritten:
    tensor = constant_tensor(a)
    left, right = finite_constant(a), finite_constant(b)
    if tensor is None or left is None or right is None or left.ndim != 2 or right.ndim != 2:
        return no("the factors are not constant and finite matrices", at=a)
    saved = sum(array.size for value, array in ((a, left), (b, right)) if len(value.uses()) == 1)
    if left.shape[0] * right.shape[1] > saved:
        return no("the merged matrix would be larger", at=a)
    with np.errstate(all="ignore"):
        merged = rounded(left @ right, tensor.dtype)
    if merged is None:
        return no("the merged matrix would not be finite", at=a)
    return op.MatMul(x, op.initializer(merged, a.name))


def _sum_of_stacked(op: Builder, flat: ir.Value, w: ir.Value, gemm: ir.Node, result: ir.Value) -> Rewritten:
    """Multiply ``w`` by the rows, shaped as in the result, and add the bias."""
    product, sizes = gemm.outputs[0], dims(w)
    if op.opset < _BROADCASTING:
        return no("opset < 7 has no implicit broadcasting", at=gemm)
    if not is_common_float(product):
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
    """Return whether a Gemm has no factors and does not transpose its left operand."""
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


def _transposed(op: Builder, w: ir.Value) -> ir.Value | Refusal:
    tensor = constant_tensor(w)
    if tensor is None:
        return no("the matrix must be transposed, but is not constant", at=w)
    if annotations.get(w):
        return no("the matrix is annotated with a data type", at=w)
    if grows(w):
        return no("the matrix must be transposed, but is used elsewhere", at=w)
    return op.initializer(ir.Tensor(np.ascontiguousarray(tensor.numpy().T), dtype=tensor.dtype), w.name)


_law = Vocabulary(_fits_into, _is_product_of_floats, _merged, _sum_of_stacked, _swaps_axes, _with_bias, with_flag).law


@passes.verify.tolerance
@passes.register("fuse")
class FuseGemm(LawPass):
    """Fuse a matrix product, the bias added to it, and transposes of its operands into one Gemm.

    Rewrites: ``MatMul(a, b) + c`` → ``Gemm(a, b, c)``; ``Gemm(a, b) + c`` → ``Gemm(a, b, c)``;
              ``Gemm(Transpose(a), b)`` → ``Gemm<transA>(a, b)``, also for ``b``.
    Refuses:  products that are not known to be of matrices of floats; a ``c`` that is not known to broadcast to the
              product without enlarging it; a product that is used elsewhere.
    Exactness: rounding; a product that overflows before the sum is excluded.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(
        shapes={"a": ((2, 3), (4, 3)), "b": ((3, 2), (3, 4)), "c": ((2,), (4,), (1,), (4, 1), (1, 4), ())},
        dtypes=("float32", "float64", "float16", "int32"),
    )
    laws = (
        *(
            _law(
                f"(y := {f}(a, b)) + c → with_bias(y, c)",
                When("opset >= 11", "before opset 11, Gemm requires a bias or broadcasts differently"),
                When("is_product_of_floats(y, a, b)"),
                When("c != y", "the product is added to itself"),
                When("fits_into(c, y)", "the summand is not known to broadcast to the product"),
                name=f"{f}Add",
            )
            for f in ("MatMul", "Gemm")
        ),
        *(
            _law(
                f"Gemm({operands}, ...) → with_flag(result, turned, {slot})",
                When("swaps_axes(turned)"),
                name=f"Transpose{'AB'[slot]}",
                forks="duplicate",
            )
            for slot, operands in enumerate(("turned := Transpose(a), b", "a, turned := Transpose(b)"))
        ),
    )


@passes.verify.tolerance
@passes.register("fuse")
class FuseMatmul(LawPass):
    """Merge two consecutive products with constant matrices into one.

    Rewrites: ``(x @ a) @ b`` → ``x @ (a @ b)``.
    Refuses:  matrices that are not constant, finite and of floats; a product that is not finite, or is larger than the
              matrices that it replaces.
    Exactness: rounding; computed in double precision and rounded once.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(
        dtypes=("float32", "float16", "float64"),
        shapes={"x": ((2, 3), (3,), (2, 1, 3)), "a": ((3, 2), (3, 4)), "b": ((2, 3), (4, 2))},
    )
    laws = (_law("x @ a @ b → merged(x, a, b)"),)


@passes.verify.tolerance
@passes.register("fuse")
class FuseReshapedGemm(LawPass):
    """Replace a Gemm between reshapes that flatten and unflatten rows by MatMul and Add.

    Rewrites: ``Reshape(Gemm(Reshape(x, s), w, c), t)`` → ``MatMul(x, w) + c``, if the reshapes keep the rows of ``x``
              and those of the product; → ``MatMul(Reshape(x, [0, 0, 4]), w) + c``, if ``x`` splits the rows and ``t``
              is computed; a constant ``w`` is transposed at once if Gemm transposes it.
    Refuses:  factors; a ``w`` that must be transposed and is not constant, or large and used elsewhere; a ``c`` that
              varies along the rows; results that are matrices; empty rows, or rows of unknown size; leading axes that
              are not known to be those of ``x``, or to be reached by a constant target; a product that is used
              elsewhere.
    Exactness: rounding; a product that overflows before the sum is excluded.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
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
    laws = (
        _law(
            "Reshape(product := Gemm(flat := Reshape(x, s), w, ...), t) → sum_of_stacked(flat, w, product, result)",
            name="FuseReshapedGemm",
            forks="duplicate",
        ),
    )
