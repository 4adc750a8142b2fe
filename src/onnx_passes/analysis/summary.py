"""Summary of a model: interface, dynamic dimensions, operators, opsets, parameters, functions, annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.measure import measure
from onnx_passes.core.plain import plain
from onnx_passes.core.records import ModelSize
from onnx_passes.graph import annotations
from onnx_passes.graph.extents import size_of, symbols_of
from onnx_passes.graph.map_types import map_text
from onnx_passes.graph.origin import origin


@dataclass(frozen=True)
class Port:
    """An input or output: name, element type and shape as text; an input with a default can be left out."""

    name: str
    dtype: str
    shape: str
    has_default: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{self.shape}" + (" (has a default)" if self.has_default else "")


@dataclass(frozen=True)
class Summary:
    """What ``inspect`` shows."""

    name: str
    ir_version: int
    producer: str
    opsets: dict[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    size: ModelSize
    subgraphs: int
    functions: tuple[str, ...]
    dynamic_dimensions: tuple[str, ...]
    values_without_shape: int
    datatypes: Counter[str]
    repairs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        data = plain({field.name: getattr(self, field.name) for field in fields(self)})
        return data | data.pop("size") | {"nodes": self.size.nodes}


def summarize(model: ir.Model) -> Summary:
    """Look at a model once and say what is in it."""
    graph = model.graph
    source = origin(model)
    values = list(annotations.values(graph))
    return Summary(
        name=graph.name or "",
        ir_version=model.ir_version,
        producer=" ".join(part for part in (model.producer_name, model.producer_version) if part),
        opsets=dict(graph.opset_imports),
        inputs=tuple(port(value) for value in graph.inputs),
        outputs=tuple(port(value) for value in graph.outputs),
        size=measure(model),
        subgraphs=sum(1 for _ in graph.subgraphs()),
        functions=tuple("::".join(part for part in key if part) for key in model.functions),
        dynamic_dimensions=tuple(dict.fromkeys(_dynamic(graph))),
        values_without_shape=sum(1 for value in values if value.shape is None),
        datatypes=Counter(
            text for value in values if (text := annotations.get(value).get("finn_datatype")) is not None
        ),
        repairs=source.repairs if source is not None else (),
    )


def port(value: ir.Value) -> Port:
    """Describe an input or output."""
    if (maps := map_text(value)) is not None:
        return Port(value.name or "", maps, "", value.is_initializer())
    shape = "[?]" if value.shape is None else "[" + ", ".join(_dim(dim) for dim in value.shape) + "]"
    dtype = value.dtype.name.lower() if value.dtype is not None else "untyped"
    return Port(value.name or "", dtype, shape, value.is_initializer())


def _dim(dim: object) -> str:
    return str(dim) if isinstance(dim, int) else str(getattr(dim, "value", None) or "?")


def _dynamic(graph: ir.Graph) -> list[str]:
    return [
        _dim(dim)
        for value in graph.inputs
        if value.shape is not None
        for dim in value.shape
        if not isinstance(dim, int)
    ]


def dynamic_inputs(graph: ir.Graph) -> dict[str, list[str]]:
    """Map the name of each dynamic dimension, ``?`` if it has none, to the inputs that have it."""
    found: dict[str, dict[str, None]] = {}
    for value in graph.inputs:
        for dim in value.shape or ():
            if not isinstance(dim, int):
                found.setdefault(dim.value or "?", {})[value.name or ""] = None
    return {name: list(inputs) for name, inputs in found.items()}


def require_known(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Refuse names that no dimension has."""
    known = {
        name
        for value in annotations.values(model.graph)
        for dim in value.shape or ()
        if not isinstance(dim, int)
        for name in (dim.value, *symbols_of(dim))
        if name is not None
    }
    for name in sizes:
        if name not in known:
            hint = did_you_mean(name, known) or (
                f"there are: {', '.join(sorted(known))}" if known else "the model has no dynamic dimensions"
            )
            raise UsageError(f"no dimension is called '{name}'", hint=hint)


def bind(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Put numbers for names of dimensions, everywhere and in place, also in what is computed from them."""
    if not sizes:
        return
    known: dict[str, int | ir.SymbolicDim] = {}
    for value in annotations.values(model.graph):
        if value.shape is None or value.shape.is_static():
            continue
        bound = [dim if isinstance(dim, int) else _bound(dim, sizes, known) for dim in value.shape]
        value.shape = ir.Shape(bound, denotations=[value.shape.get_denotation(i) for i in range(len(bound))])


def _bound(
    dim: ir.SymbolicDim, sizes: Mapping[str, int], known: dict[str, int | ir.SymbolicDim]
) -> int | ir.SymbolicDim:
    text = dim.value
    if text is None:
        return dim
    if text not in known:
        known[text] = size_of(dim, sizes)
    return known[text]
