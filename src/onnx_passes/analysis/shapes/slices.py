"""The shape of a slice: onnx_shape_inference believes that a slice finds as many elements as it asks for."""

from __future__ import annotations

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, check_inputs

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.extents import Amount, Element, Extent, greatest, least

Dim = int | ir.SymbolicDim

_FAR = frozenset({2**63 - 1, 2**31 - 1, -(2**63), -(2**31)})
"""What exporters write for the end of an axis, whatever its size."""


def infer_slice(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Infer the shape of a slice, and its elements if those of a vector are known."""
    data, *_ = check_inputs(node, "data", "starts", "ends")
    output, shape = node.outputs[0], data.shape
    if shape is None:
        ctx.set_shape_and_dtype(output, None, data.dtype)
        return
    starts, ends, axes, steps = (_elements(ctx, node, index) for index in range(1, 5))
    if axes is None and argument(node, 3) is None:
        axes = list(range(len(shape) if starts is None else len(starts)))
    if axes is None or not all(isinstance(axis, int) for axis in axes):
        ctx.set_shape_and_dtype(output, ir.Shape([ctx.new_symbolic_dim() for _ in shape]), data.dtype)
        return
    if steps is None and argument(node, 4) is None:
        steps = [1] * len(axes)
    dims = list(shape.dims)
    for place, axis in enumerate(axes):
        if not isinstance(axis, int) or not -len(dims) <= axis < len(dims):
            continue
        bounds = [None if given is None or place >= len(given) else given[place] for given in (starts, ends, steps)]
        if bounds[2] == 0:
            raise ValueError("the step is 0")
        found = _sliced(shape[axis], *bounds)
        dims[axis] = ctx.new_symbolic_dim() if found is None else found
    ctx.set_shape_and_dtype(output, ir.Shape(dims), data.dtype)
    elements = ctx.get_symbolic_value(data)
    part = [bound for bound in (*(starts or ()), *(ends or ()), *(steps or ())) if isinstance(bound, int)]
    if elements is not None and axes == [0] and len(part) == 3:
        ctx.set_symbolic_value(output, elements[part[0] : part[1] : part[2]])


def _elements(ctx: ShapeInferenceContext, node: ir.Node, index: int) -> list[Dim] | None:
    value = argument(node, index)
    return None if value is None else ctx.get_symbolic_value(value)


def _sliced(size: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Element:
    """Return how many elements are found along one axis; a dynamic one may be shorter than what is asked for."""
    if not isinstance(start, int) or not isinstance(step, int) or not isinstance(size, int | Extent):
        return None
    if step == -1 and start in _FAR and end in _FAR:
        return size
    if isinstance(size, int) and isinstance(end, int):
        return len(range(*slice(start, end, step).indices(size)))
    if step < 0 or start < 0:
        return None
    stop: Amount
    if isinstance(end, int):
        if end >= 0 and end not in _FAR:
            return 0 if end <= start else None
        stop = size if end in _FAR else size + end
    else:
        found = least(size, end) if isinstance(end, Extent) else None
        if found is None:
            return None
        stop = found
    return greatest(0, -((start - stop) // step))
