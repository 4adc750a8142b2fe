"""A summary of a model: interface, operators, opsets, parameters, functions, annotations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

import onnx_ir as ir

from onnx_passes.core.measure import measure
from onnx_passes.core.plain import plain
from onnx_passes.core.records import ModelSize
from onnx_passes.graph import annotations
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
