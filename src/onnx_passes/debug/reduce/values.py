"""Steps that make the data of a failing model simpler: constants, inputs, and the sizes of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.debug.reduce.case import Array, FailingCase, seen_shape, tensor_of
from onnx_passes.debug.reduce.steps import Proposal
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.run.execute import Sample

_ONE_BY_ONE = 24
"""Arrays of up to so many elements are simplified element by element."""
_SIZES_IN_ATTRIBUTES = ("kernel_shape", "output_shape", "split", "shape")


def simpler_constants(case: FailingCase) -> Iterator[Proposal]:
    """Take simpler numbers, or a single one, for the data of initializers and Constant nodes."""
    for at, tensor in enumerate(_constants(case.model)):
        array = tensor.numpy()
        if array.size > 1 and array.dtype.kind != "O":
            yield lambda at=at, array=array: _with_constant(case, at, array.reshape(-1)[:1].reshape(()))
        for simple in simpler(array):
            yield lambda at=at, simple=simple: _with_constant(case, at, simple)


def _constants(model: ir.Model) -> list[ir.TensorProtocol]:
    return [tensor for _, tensor in _holders(model)]


def _holders(model: ir.Model) -> Iterator[tuple[ir.Value | ir.Node, ir.TensorProtocol]]:
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value, value.const_value
        for node in graph:
            attribute = node.attributes.get("value") if is_constant_node(node) else None
            if attribute is not None and attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                yield node, attribute.as_tensor()


def _with_constant(case: FailingCase, at: int, array: Array) -> FailingCase:
    model = copy_model(case.model)
    holder, tensor = list(_holders(model))[at]
    _set_constant(holder, tensor_of(array, tensor.name))
    return FailingCase(model, list(case.samples), case.values)


def _set_constant(holder: ir.Value | ir.Node, tensor: ir.TensorProtocol) -> None:
    value = holder if isinstance(holder, ir.Value) else holder.outputs[0]
    if isinstance(holder, ir.Node):
        holder.attributes["value"] = ir.AttrTensor("value", tensor)
    if isinstance(holder, ir.Value) or value.const_value is not None:
        value.const_value = tensor
    if value.shape is not None:
        value.shape = ir.Shape(tensor.shape.numpy())


def simpler_inputs(case: FailingCase) -> Iterator[Proposal]:
    """Take simpler numbers for the inputs."""
    for number, sample in enumerate(case.samples):
        for name, array in sample.items():
            for simple in simpler(array):
                yield lambda number=number, name=name, simple=simple: _with_input(case, number, name, simple)


def _with_input(case: FailingCase, number: int, name: str, array: Array) -> FailingCase:
    samples: list[Sample] = [dict(sample) for sample in case.samples]
    samples[number][name] = array
    return FailingCase(copy_model(case.model), samples, case.values)


def simpler(array: Array) -> Iterator[Array]:
    """Return arrays of the same type and shape with simpler elements, the simplest first."""
    if array.size == 0 or array.dtype.kind in "OUSc":
        return
    cost = complexity(array)
    for candidate in _candidates(array):
        if complexity(candidate) < cost:
            yield candidate


def _candidates(array: Array) -> Iterator[Array]:
    yield np.zeros_like(array)
    yield np.ones_like(array)
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        small = np.where(np.isfinite(wide), np.clip(np.rint(wide), -9, 9), wide)
        rounded = np.where(np.isfinite(wide), np.round(wide, 1), wide)
        for whole in (small, rounded):
            converted = whole.astype(array.dtype)
            # A type without negative numbers, or without NaN, may turn something simple into something odd.
            if np.array_equal(converted.astype(np.float64), whole, equal_nan=True):
                yield converted
    if 1 < array.size <= _ONE_BY_ONE:
        for index in np.ndindex(array.shape):
            for number in (array.dtype.type(0), array.dtype.type(1), small[index]):
                changed = array.copy()
                changed[index] = number
                yield changed


def complexity(array: Array) -> float:
    """Return how hard numbers are to read: 0, then 1, then small integers, then the rest."""
    with np.errstate(all="ignore"):
        numbers = array.astype(np.float64)
        whole = np.isfinite(numbers) & (np.abs(numbers) < 10) & (numbers == np.rint(numbers))
        cost = np.where(whole, 2 + np.abs(numbers) / 10, 20.0)
        cost = np.where(np.isfinite(numbers) & ~whole & (numbers == np.round(numbers, 1)), 10.0, cost)
        cost = np.where(numbers == 1, 1.0, cost)
        cost = np.where((numbers == 0) & ~np.signbit(numbers), 0.0, cost)
    return float(cost.sum())


@dataclass(frozen=True)
class _Axis:
    """A dimension of an input or an initializer of the graph."""

    name: str
    axis: int
    size: int


def smaller_dimensions(case: FailingCase) -> Iterator[Proposal]:
    """Slice inputs and initializers along axes: all axes of one size, two axes at one node, or a single axis."""
    for group in _groups(case):
        size = group[0].size
        for part in _parts(size):
            for follow in (True, False):
                yield lambda group=group, part=part, follow=follow: _sliced(case, group, part, follow=follow)


def _parts(size: int) -> Iterator[slice]:
    yield slice(0, 1)
    if size > 2:
        yield slice(0, 2)
        yield slice(size - 1, size)
        yield slice(0, (size + 1) // 2)
        yield slice(size // 2, size)
    else:
        yield slice(1, 2)


def _groups(case: FailingCase) -> list[list[_Axis]]:
    shapes = _leaf_shapes(case)
    axes = [_Axis(name, a, size) for name, shape in shapes.items() for a, size in enumerate(shape) if size > 1]
    groups = [[axis for axis in axes if axis.size == size] for size in sorted({a.size for a in axes}, reverse=True)]
    for node in case.model.graph.all_nodes():
        names = {value.name for value in node.inputs if value is not None}
        here = [axis for axis in axes if axis.name in names]
        groups += [[a, b] for i, a in enumerate(here) for b in here[i + 1 :] if a.size == b.size and a.name != b.name]
    groups += [[axis] for axis in axes]
    return list({tuple(group): group for group in groups}.values())


def _leaf_shapes(case: FailingCase) -> dict[str, tuple[int, ...]]:
    shapes = {
        name: tuple(value.const_value.shape.numpy())
        for name, value in _initializers(case.model).items()
        if value.const_value is not None
    }
    for name in case.samples[0] if case.samples else ():
        sizes = {sample[name].shape for sample in case.samples if name in sample}
        if len(sizes) == 1:
            shapes[name] = sizes.pop()
    return shapes


def _initializers(model: ir.Model) -> dict[str, ir.Value]:
    graphs = (model.graph, *model.graph.subgraphs())
    return {name: value for graph in graphs for name, value in graph.initializers.items()}


def _sliced(case: FailingCase, group: Sequence[_Axis], part: slice, *, follow: bool) -> FailingCase | None:
    """Cut along axes; ``follow`` also changes the size where shapes are written down as numbers."""
    model = copy_model(case.model)
    before, after = group[0].size, part.stop - part.start
    if follow and not _rename_size(model, before, after):
        return None
    initializers = _initializers(model)
    samples: list[Sample] = [dict(sample) for sample in case.samples]
    for axis in group:
        cut = (slice(None),) * axis.axis + (part,)
        for sample in samples:
            if axis.name in sample:
                sample[axis.name] = sample[axis.name][cut]
        value = initializers.get(axis.name)
        if value is not None and value.const_value is not None:
            value.const_value = tensor_of(value.const_value.numpy()[cut], value.name)
    return _redeclared(FailingCase(model, samples))


def _rename_size(model: ir.Model, before: int, after: int) -> bool:
    found = False
    for holder, tensor in _holders(model):
        if tensor.dtype is ir.DataType.INT64 and len(tensor.shape) == 1 and tensor.size <= 8:
            array = tensor.numpy()
            if (array == before).any():
                found = True
                _set_constant(holder, tensor_of(np.where(array == before, after, array), tensor.name))
    for node in model.graph.all_nodes():
        for name in _SIZES_IN_ATTRIBUTES:
            attribute = node.attributes.get(name)
            if attribute is not None and attribute.type is ir.AttributeType.INTS and before in attribute.as_ints():
                found = True
                sizes = [after if size == before else size for size in attribute.as_ints()]
                node.attributes[name] = ir.AttrInt64s(name, sizes)
    return found


def without_leading_axis(case: FailingCase) -> Iterator[Proposal]:
    """Drop the first axis of all inputs and initializers of the highest rank, if its size is one."""
    shapes = _leaf_shapes(case)
    rank = max(map(len, shapes.values()), default=0)
    highest = [name for name, shape in shapes.items() if len(shape) == rank]
    if rank > 1 and all(shapes[name][0] == 1 for name in highest):
        yield lambda: _reshaped(case, highest)


def _reshaped(case: FailingCase, names: Sequence[str]) -> FailingCase:
    model = copy_model(case.model)
    initializers = _initializers(model)
    samples: list[Sample] = [{k: a[0] if k in names else a for k, a in sample.items()} for sample in case.samples]
    for name in names:
        value = initializers.get(name)
        if value is not None and value.const_value is not None:
            value.const_value = tensor_of(value.const_value.numpy()[0], name)
    return _redeclared(FailingCase(model, samples))


def _redeclared(case: FailingCase) -> FailingCase:
    """Declare the new shapes of inputs and initializers; shapes of computed values are recorded in the next run."""
    graph = case.model.graph
    for value in graph.inputs:
        arrays = [sample[value.name or ""] for sample in case.samples if value.name in sample]
        if arrays:
            value.shape = _new_shape(value.shape, seen_shape(arrays))
    for value in _initializers(case.model).values():
        if value.const_value is not None and not value.is_graph_input():
            value.shape = ir.Shape(value.const_value.shape.numpy())
    return case


def _new_shape(declared: ir.Shape | None, seen: ir.Shape) -> ir.Shape:
    if declared is None or len(declared) != len(seen):
        return seen
    return ir.Shape([new if isinstance(old, int) else old for old, new in zip(declared, seen, strict=True)])
