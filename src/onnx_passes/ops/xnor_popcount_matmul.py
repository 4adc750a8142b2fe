"""XnorPopcountMatMul: a matrix product of bits that counts where they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import dimension
from onnx_passes.graph.traits import TRAITS, Traits
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import Call, Definition, Input, define

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


@define
class XnorPopcountMatMul(Definition):
    """Count, for each row of one matrix and column of another, the places where they agree; elements are 0 or 1.

    With zeros read as -1, this is half of the sum of their product and their length: ``((2a - 1) @ (2b - 1) + K) / 2``.
    """

    name = "XnorPopcountMatMul"
    inputs = (Input("a", "the rows, of zeros and ones"), Input("b", "the columns, of zeros and ones"))

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        a, b = inputs
        number = a.dtype.type
        product = np.matmul(number(2) * a - number(1), number(2) * b - number(1))
        return ((product + number(a.shape[-1])) * number(0.5)).astype(a.dtype)

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        b = call.input(1)
        length = dimension(call.x, -1) or dimension(b, 0 if b is not None and b.shape and len(b.shape) < 2 else -2)
        if length is None:
            raise ModelError(
                "the length of the rows has to be known", where=name_of(call.node), hint="infer shapes first"
            )
        two, one = call.number(2), call.number(1)
        product = op.MatMul(op.Sub(op.Mul(call.x, two), one), op.Sub(op.Mul(b, two), one))
        return op.Mul(op.Add(product, call.number(length)), call.number(0.5))

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer the type and shape of a matrix product."""
        from onnx_shape_inference import registry

        registry.collect()
        infer = registry.get("", "MatMul", version=ctx.opset)
        if infer is not None:
            infer(ctx, node)


TRAITS.of(XnorPopcountMatMul)(Traits("product", expensive=True, exact_grid=True))
