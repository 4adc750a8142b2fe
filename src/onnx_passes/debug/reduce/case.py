"""A failing case: a model, the samples it fails on, and every value that was seen while it ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.debug.reduce.branches import hoisted, taken_branches
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.run.execute import Executor, Sample

Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[str, tuple[Array, ...]]
"""What a value held, by its name: one array for each sample."""


@dataclass(frozen=True)
class Case:
    """A model with the samples it fails on; ``values`` is empty if it cannot be run."""

    model: ir.Model
    samples: list[Sample]
    values: Mapping[str, tuple[Array, ...]] = field(default_factory=Values)

    @property
    def nodes(self) -> int:
        """Return the number of nodes, those of subgraphs and functions included."""
        inside = sum(1 for function in self.model.functions.values() for _ in function.all_nodes())
        return inside + sum(1 for _ in self.model.graph.all_nodes())


def record(model: ir.Model, samples: Sequence[Sample], executor: Executor) -> Values | None:
    """Run a model and keep what every value held, in the branches that were taken, too; nothing if it cannot run."""
    values = _run(model, samples, executor)
    if values is None:
        return None
    branches = taken_branches(model, values)
    if branches:
        flat = copy_model(model)
        hoisted(flat, branches)
        values = {**(_run(flat, samples, executor) or {}), **values}
    return values


def _run(model: ir.Model, samples: Sequence[Sample], executor: Executor) -> Values | None:
    results = [value for node in model.graph for value in node.outputs if value.name]
    known = [value for value in results if isinstance(value.type, ir.TensorType)]
    tensors = [value for value in results if value.type is None or isinstance(value.type, ir.TensorType)]
    for wanted in (tensors, known, ()):
        try:
            ready = executor.prepare(model, also=wanted)
            runs = [ready.run(sample) for sample in samples]
        except OnnxPassesError:
            # ONNX Runtime cannot hand out values of some types, which only shows in a run.
            continue
        given = {name: tuple(sample[name] for sample in samples) for name in _common(samples)}
        return given | {
            name: tuple(run[name] for run in runs)
            for name in _common(runs)
            if all(isinstance(cast(object, run[name]), np.ndarray) for run in runs)
        }
    return None


def _common(samples: Sequence[Sample]) -> list[str]:
    return [name for name in samples[0] if all(name in sample for sample in samples)] if samples else []


def dtype_of(array: Array) -> ir.DataType:
    """Return the element type of an array."""
    return ir.DataType.STRING if array.dtype.kind in "OUS" else ir.DataType.from_numpy(array.dtype)


def tensor_of(array: Array, name: str | None) -> ir.TensorProtocol:
    """Make a tensor of an array, texts included."""
    if dtype_of(array) is not ir.DataType.STRING:
        return ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1).tolist()]
    return ir.StringTensor(texts, shape=ir.Shape(array.shape), name=name)


def declare(value: ir.Value, arrays: Sequence[Array]) -> None:
    """Give a value the type that was seen, and the shape unless the declared one fits and says as much."""
    dtype = dtype_of(arrays[0])
    if value.dtype is not dtype or not isinstance(value.type, ir.TensorType):
        value.type = ir.TensorType(dtype)
    if value.shape is None or not all(_fits(value.shape, array.shape) for array in arrays):
        value.shape = seen_shape(arrays)


def seen_shape(arrays: Sequence[Array]) -> ir.Shape:
    """Return the shape of arrays; a dimension in which they differ is dynamic."""
    sizes = zip(*(array.shape for array in arrays), strict=True)
    return ir.Shape([size[0] if len(set(size)) == 1 else None for size in sizes])


def _fits(declared: ir.Shape, shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        dim == size if isinstance(dim, int) else dim.value is not None
        for dim, size in zip(declared, shape, strict=True)
    )


def settle_symbols(inputs: Iterable[ir.Value], values: Mapping[str, Sequence[Array]]) -> None:
    """Make dimensions static where one name would stand for two sizes."""
    ports = [(value, values[value.name or ""]) for value in inputs if value.name in values and value.shape is not None]
    sizes: dict[tuple[str, int], set[int]] = {}
    for value, arrays in ports:
        for axis, dim in enumerate(cast(ir.Shape, value.shape)):
            for number, array in enumerate(arrays):
                sizes.setdefault((str(dim), number), set()).add(array.shape[axis])
    torn = {name for (name, _), found in sizes.items() if len(found) > 1}
    for value, arrays in ports:
        if any(str(dim) in torn and not isinstance(dim, int) for dim in cast(ir.Shape, value.shape)):
            value.shape = seen_shape(arrays)


def refitted(case: Case, executor: Executor) -> Case | None:
    """Run a changed model and declare the types and shapes that are seen; nothing if it does not run."""
    graph = case.model.graph
    results = [value for inner in (graph, *graph.subgraphs()) for node in inner for value in node.outputs]
    declared = {value: value.shape for value in results if value.shape is not None}
    for value in declared:
        value.shape = None
    values = record(case.model, case.samples, executor)
    if values is None:
        return None
    for value, shape in declared.items():
        if value.name in values:
            value.shape = shape
            declare(value, values[value.name])
    for value in graph.outputs:
        if value.name in values:
            declare(value, values[value.name])
    return Case(case.model, case.samples, values)
