"""A matrix product whose weights have a row for each result, as a user would bring it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import operators
from onnx_passes.numbers.range import exact_up_to
from onnx_passes.ops.ranges.products import product


@operators.define
class RowProduct(operators.Definition):
    """Multiply matrices, the second one transposed: ``x @ w.T``."""

    name = "RowProduct"
    domains = ("plugin.product",)
    inputs = (operators.Input("x", "a matrix"), operators.Input("w", "a row for each column of the result"))

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        return np.matmul(inputs[0], inputs[1].T)

    def lower(self, op: Any, call: operators.Call) -> ir.Value:
        return op.MatMul(call.x, op.Transpose(call.input(1), perm=[1, 0]))

    def infer(self, ctx: Any, node: ir.Node) -> None:
        x, w = node.inputs
        if x.shape is not None and w.shape is not None:
            ctx.set_shape_and_dtype(node.outputs[0], ir.Shape([x.shape[0], w.shape[0]]), x.dtype)


operators.traits.of(RowProduct)(operators.Traits("product", expensive=True))


@operators.work.of(RowProduct)
def work(node: ir.Node) -> operators.Work:
    (rows, inner), columns = node.inputs[0].shape.numpy(), node.outputs[0].shape[1]
    return operators.Work(rows * inner * columns)


@operators.ranges.of(RowProduct)
def ranges(site: Any) -> operators.Range:
    x, w = site[0], site[1].mapped(np.transpose)
    return product(x, w, site.shape(0)[1], site.unit, exact_up_to(site.node.outputs[0].dtype))


@operators.integer_form.of(RowProduct)
def integer_form(make: Any, node: ir.Node, forms: Sequence[operators.Form | None]) -> operators.Form | operators.Reason:
    x, w = forms
    if x is None or w is None:
        return operators.Reason("an input has no form of integers", "quantize it")
    if x.has_bias or w.has_bias or x.scale.shape[1] > 1 or w.scale.shape[1] > 1:
        return operators.Reason("scales vary along the sum, or there is a bias", "share a scale")
    integer = make.node(node.op_type, [x.integer, w.integer], node.outputs[0], domain=node.domain)
    return operators.Form(integer, x.scale * w.scale.T, np.zeros((1, 1)))


@operators.fuzz.of(RowProduct)
def recipe(site: Any) -> None:
    rows, inner, columns = 2, 3, 4
    x = site.input(0, (rows, inner))
    site.input(1, (columns, inner if x is None else x.shape[-1]))
