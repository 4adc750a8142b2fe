"""An integer network: layers in order, the tensors between them, and their constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import onnx_ir as ir

from onnx_passes.backend.containers import container_of
from onnx_passes.datatypes import DataType

Kind = Literal[
    "product", "threshold", "add", "elementwise", "pooling", "reduction", "concat", "movement", "cast", "shape",
    "quantize", "scale", "other", "float",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
WITH_BIAS = ("Conv", "ConvTranspose", "Gemm")
"""Products whose third operand is a bias."""
Attribute = int | float | str | tuple[Any, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Tensor:
    """A value between layers, or a constant of a layer.

    ``shape`` has names for dynamic dimensions, and is ``None`` if the rank is unknown. ``type`` is the smallest data
    type of its numbers, of any width, ``container`` the smallest C type for it. ``low`` and ``high`` bound the numbers:
    integers, or floats if the type is not an integer; one number, or an array of the rank of the tensor, with size 1
    along axes on which bounds are equal, so that those of channels are ``[1, C, 1, 1]``. ``source`` is the layer that
    computes it: empty for inputs and constants. Constants have their ``values``, integers in the container.
    """

    name: str
    shape: tuple[int | str, ...] | None
    type: DataType
    container: str
    low: np.ndarray
    high: np.ndarray
    source: str = ""
    values: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Make the arrays read-only, as the model may hold them, too."""
        for name in ("low", "high", "values"):
            array: np.ndarray | None = getattr(self, name)
            if array is not None:
                held = array.view()
                held.flags.writeable = False
                object.__setattr__(self, name, held)

    @property
    def is_integer(self) -> bool:
        """Return whether the tensor holds integers."""
        return self.type.is_integer

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest number of all elements, as integers if it holds integers."""
        return self.low.min().item(), self.high.max().item()

    @property
    def range_text(self) -> str:
        """Return the bounds as text."""
        return " … ".join(f"{end:,}" if isinstance(end, int) else f"{end:.4g}" for end in self.bounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def __hash__(self) -> int:
        return hash((self.name, self.shape, self.source))

    def __repr__(self) -> str:
        shape = "?" if self.shape is None else ",".join(map(str, self.shape))
        held = " constant" if self.values is not None else f" from '{self.source}'" if self.source else ""
        return f"<Tensor '{self.name}' {self.type}[{shape}] in {self.container}, {self.range_text}{held}>"


@dataclass(frozen=True, repr=False)
class Layer:
    """One step of a network; all kinds except ``quantize``, ``scale`` and ``float`` compute on integers only.

    ``product``      MatMul, Gemm, Conv, ConvTranspose, Einsum: inputs ``x``, ``weight``, and ``bias`` if there is one;
                     ``accumulator`` holds every partial sum, in any order; the type of the output is enough
                     where arithmetic wraps around
    ``threshold``    ``levels[..., k]`` where ``x``, integers or floats, has reached (``>=``) k of the thresholds, which
                     ascend: inputs ``x``, ``thresholds``, ``levels``; the axes but the last broadcast against x
    ``add``          sums of tensors, as where branches join
    ``elementwise``  other operators on each element
    ``pooling``, ``reduction``, ``concat``, ``movement`` (reshape, transpose, slice, pad, nearest neighbours …)
    ``cast``         the same numbers in another type; as floats they are rounded to the nearest
    ``shape``        sizes of tensors
    ``quantize``     floats to integers, by other means than thresholds
    ``scale``        integers to floats, ``x * scale + bias``: inputs ``x``, ``scale``, ``bias``, of which one may be
                     missing; the product is rounded before the sum
    ``other``        operators on integers that belong to none of these
    ``float``        computes in floats; ``reason`` is the reason

    ``operator`` and ``attributes`` are those of ONNX, with defaults filled in and explicit padding. ``inputs`` are in
    the order of the operator, ``None`` if omitted. ``nodes`` are the model nodes of the layer, empty for a loaded
    network.
    """

    name: str
    kind: Kind
    operator: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=lambda: MappingProxyType({}))
    accumulator: DataType | None = None
    reason: str = ""
    nodes: tuple[ir.Node, ...] = field(default=(), compare=False)

    @property
    def is_float(self) -> bool:
        """Return whether the layer computes in floats."""
        return self.kind == "float"

    @property
    def weight(self) -> Tensor | None:
        """Return the constant operand of a product, the second or the first one."""
        held = (self._input(index) for index in (1, 0)) if self.kind == "product" else ()
        return next((tensor for tensor in held if tensor is not None and tensor.values is not None), None)

    @property
    def bias(self) -> Tensor | None:
        """Return the summand of a product or scale; None if there is none."""
        return self._input(2) if self.kind == "scale" or self.operator in WITH_BIAS else None

    @property
    def thresholds(self) -> Tensor | None:
        """Return the thresholds, ascending along the last axis."""
        return self._input(1) if self.kind == "threshold" else None

    @property
    def levels(self) -> Tensor | None:
        """Return the results by the number of reached thresholds, along the last axis."""
        return self._input(2) if self.kind == "threshold" else None

    @property
    def scale(self) -> Tensor | None:
        """Return the factor of a scale, if there is one."""
        return self._input(1) if self.kind == "scale" else None

    @property
    def accumulator_container(self) -> str:
        """Return the C type that holds every partial sum of a product."""
        return "" if self.accumulator is None else container_of(self.accumulator)

    def _input(self, index: int) -> Tensor | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def __repr__(self) -> str:
        operands = ", ".join("-" if each is None else f"'{each.name}'" for each in self.inputs)
        results = ", ".join(f"'{each.name}': {each.type}" for each in self.outputs)
        reason = f"; {self.reason}" if self.reason else ""
        return f"<Layer '{self.name}' {self.kind}: {self.operator}({operands}) → {results}{reason}>"


class Edge(NamedTuple):
    """Tensor between two layers; ``source`` is empty for inputs of the network, ``target`` for outputs."""

    source: str
    tensor: str
    target: str


@dataclass(frozen=True, repr=False)
class IntegerNetwork:
    """The layers of a network in an executable order; ``print`` shows them as a table.

    ``model`` is the model of the layers, None for a loaded network.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    model: ir.Model | None = field(default=None, compare=False)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Return all tensors by name, including constants."""
        read = (tensor for layer in self.layers for tensor in (*layer.inputs, *layer.outputs) if tensor is not None)
        return MappingProxyType({tensor.name: tensor for tensor in (*self.inputs, *read, *self.outputs)})

    @property
    def edges(self) -> tuple[Edge, ...]:
        """List the edges between layers."""
        between = (
            Edge(tensor.source, tensor.name, layer.name)
            for layer in self.layers
            for tensor in layer.inputs
            if tensor is not None and tensor.values is None
        )
        return (*between, *(Edge(tensor.source, tensor.name, "") for tensor in self.outputs))

    @property
    def floats(self) -> tuple[Layer, ...]:
        """List the layers that compute in floats, with their reasons."""
        return tuple(layer for layer in self.layers if layer.is_float)

    def __getitem__(self, name: str) -> Layer:
        """Return a layer by its name."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)

    def save(self, folder: str | Path) -> None:
        """Write ``network.json`` and ``arrays.npz`` to a folder, both or none."""
        from onnx_passes.backend.files import write_network

        write_network(self, Path(folder))

    @staticmethod
    def load(folder: str | Path) -> IntegerNetwork:
        """Read a saved network: the same network, without the model and its nodes."""
        from onnx_passes.backend.files import read_network

        return read_network(Path(folder))

    def to_json(self) -> dict[str, Any]:
        """Return the contents of ``network.json``."""
        from onnx_passes.backend.files import described

        return described(self)[0]

    def __repr__(self) -> str:
        return f"<IntegerNetwork '{self.name}': {len(self.layers)} layers, {len(self.floats)} in floats>"

    def __str__(self) -> str:
        from onnx_passes.backend.table import network_lines

        return "\n".join(network_lines(self))


def _same(a: Any, b: Any) -> bool:
    return _comparable(a) == _comparable(b)


def _comparable(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    array = cast("np.ndarray[Any, np.dtype[Any]]", value)
    return array.dtype, array.shape, array.tobytes()
