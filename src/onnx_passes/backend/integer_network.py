"""Read the layers of an integer network from a model, with complete attributes as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import behind_quantizers, streamlined
from onnx_passes.analysis.support import quantizers_of
from onnx_passes.api import apply
from onnx_passes.backend.network import WITH_BIAS, Attribute, IntegerNetwork, Kind, Layer, Tensor
from onnx_passes.backend.tensors import Tensors
from onnx_passes.check.verification import Verification
from onnx_passes.core.walk import holds_graphs
from onnx_passes.datatypes import DataType, smallest_for
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant, is_constant_node
from onnx_passes.graph.edits import used_values
from onnx_passes.graph.load import Source, load
from onnx_passes.graph.schemas import default_attribute, schema_of
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import attribute_text, name_of, operator_name
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.facts.sums import sums_between
from onnx_passes.ops.quantizer import CountingThresholds, is_quantizer, quantizer_of
from onnx_passes.ops.windows import windows_of
from onnx_passes.passes.datatypes.inference import operands
from onnx_passes.passes.export.thresholds import StepFunction, step_function
from onnx_passes.passes.streamline.aggregate_scales import reasons_of

_PREPARED = "inline-functions, lift-constants, shape-inference"
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("Add", "Sum"), "add"),
    "Concat": "concat",
    "Resize": "movement",
    **dict.fromkeys(("Shape", "Size"), "shape"),
}
"""Kinds that are finer than the traits of operators; resized integers count as moved."""
_BEFORE = "no integers reach it: it comes before the first quantizer; quantize the input of the network"
_AFTER = "no quantizer follows: it makes floats for the outputs of the network"
_NO_LEVELS = "its levels are no integers; quantize to integers"


def integer_network(
    source: Source, *, streamline: bool | None = None, verify: bool | Verification = True
) -> IntegerNetwork:
    """Return the layers of a network, with integers, types and ranges, for a backend.

    A model with other quantizers than thresholds is streamlined first, on a verified copy, as by
    ``apply(model, "streamline")``; ``streamline`` forces or prevents that. No node is left out: nodes that cannot be
    computed on integers are layers of kind ``float`` with a reason.
    """
    model = load(source)
    wanted = _has_scales(model) if streamline is None else streamline
    prepared = apply(model, "streamline" if wanted else _PREPARED, verify=verify and wanted).model
    return _Reader(prepared).network()


def _has_scales(model: ir.Model) -> bool:
    """Return whether a model has functions, or quantizers that streamlining would convert to thresholds."""
    kinds = (kind.operator for kind in quantizers_of(model))
    return bool(model.functions) or any(not kind.endswith("MultiThreshold") for kind in kinds)


class _Reader:
    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.tensors = Tensors(model)
        self.behind = behind_quantizers(model.graph, self.tensors.ranges)
        self.reasons = {
            found.node: f"{found.reason}; {found.remedy}" for found in streamlined(model, reasons_of).blockers
        }
        self.floats: set[ir.Node] = set()
        self.names: set[str] = set()

    def network(self) -> IntegerNetwork:
        graph = self.model.graph
        inputs = tuple(self.tensors.of(value) for value in graph.inputs if not value.is_initializer())
        for value in graph.outputs:
            if constant(value) is not None:
                # An output keeps its name, even if it is a constant.
                self.tensors.of(value)
        layers = tuple(self._layers())
        return IntegerNetwork(graph.name or "", inputs, tuple(map(self.tensors.of, graph.outputs)), layers, self.model)

    def _layers(self) -> Iterator[Layer]:
        taken: set[ir.Node] = set()
        for node in self.model.graph:
            if node in taken or is_constant_node(node):
                continue
            found = step_function(node) if isinstance(quantizer_of(node), CountingThresholds) else ""
            kind = self._kind(node, found)
            if isinstance(found, StepFunction):
                yield self._threshold(node, found)
            elif kind == "scale":
                layer = self._scale(node)
                taken.update(layer.nodes)
                yield layer
            else:
                yield self._plain(node, kind)

    def _kind(self, node: ir.Node, found: StepFunction | str) -> Kind:
        if isinstance(found, StepFunction):
            return "threshold"
        family = traits_of(node).kind
        data = [value for value in operands(node) or node.inputs if value is not None]
        computes_integers = all(self.tensors.is_integer(value) for value in (*data, *node.outputs))
        if is_quantizer(node):
            return "quantize" if self.tensors.is_integer(node.outputs[0]) else "float"
        if node.op_type == "Cast" and self.tensors.is_integer(data[0]):
            return "cast"
        if _KINDS.get(node.op_type) == "shape" or family == "movement" or computes_integers:
            if holds_graphs(node) or family == "normalization":
                return "other"
            return _KINDS.get(node.op_type, family)
        return "scale" if self._is_scale(node, data) else "float"

    def _is_scale(self, node: ir.Node, data: list[ir.Value]) -> bool:
        """Return whether a node turns integers, or rounded integers, into floats."""
        moving = [value for value in data if constant(value) is None]
        if node.op_type not in ("Mul", "Add") or node.domain or len(moving) != 1 or len(data) != 2:
            return False
        known = self.tensors.ranges.get(moving[0])
        return known is not None and known.grid is not None

    def _plain(self, node: ir.Node, kind: Kind) -> Layer:
        name, is_integer = self._name(node), kind not in ("quantize", "float")
        data = operands(node)
        captured = {value for value in used_values(node)[len(node.inputs) :] if value is not None}
        given = [*node.inputs, *sorted(captured, key=lambda value: value.name or "")]
        inputs = [
            None if value is None else self.tensors.of(value, small=is_integer and value in data) for value in given
        ]
        return Layer(
            name,
            kind,
            operator_name(node),
            tuple(inputs),
            tuple(self.tensors.of(value, name) for value in node.outputs if value.name),
            attributes_of(node, self.model.opset_imports.get(node.domain, 1)),
            self._accumulator(node) if kind == "product" else None,
            self._reason(node) if kind == "float" else "",
            (node,),
        )

    def _threshold(self, node: ir.Node, found: StepFunction) -> Layer:
        name, x = self._name(node), node.inputs[0]
        assert x is not None
        source, thresholds = self.tensors.of(x), found.thresholds
        if source.is_integer:
            # Thresholds outside the range are always reached, or never.
            low, high = source.bounds
            thresholds = np.clip(np.ceil(thresholds), low, high + 1).astype(np.int64)
        axes = rank(x) or 0
        shaped = [array.reshape((1,) * (axes + 1 - array.ndim) + array.shape) for array in (thresholds, found.levels)]
        held = [
            self.tensors.constant(f"{name}.{role}", array, small=array.dtype.kind == "i")
            for role, array in zip(("thresholds", "levels"), shaped, strict=True)
        ]
        return Layer(
            name,
            "threshold",
            "MultiThreshold",
            (source, *held),
            (self.tensors.of(node.outputs[0], name),),
            nodes=(node,),
        )

    def _scale(self, node: ir.Node) -> Layer:
        """Merge a product and the sum after it into one layer."""
        nodes = [node]
        users = list(node.outputs[0].consumers())
        if node.op_type == "Mul" and len(users) == 1 and not node.outputs[0].is_graph_output():
            last = users[0]
            if last.op_type == "Add" and self._is_scale(last, [value for value in last.inputs if value is not None]):
                nodes.append(last)
        name, held = self._name(node), dict[str, Tensor]()
        for each in nodes:
            value = next(value for value in each.inputs if constant(value) is not None)
            assert value is not None
            held[each.op_type] = self.tensors.of(value)
        x = next(value for value in node.inputs if value is not None and constant(value) is None)
        inputs = (self.tensors.of(x), held.get("Mul"), held.get("Add"))
        return Layer(name, "scale", "Scale", inputs, (self.tensors.of(nodes[-1].outputs[0], name),), nodes=tuple(nodes))

    def _accumulator(self, node: ir.Node) -> DataType | None:
        has_bias = node.op_type in WITH_BIAS and len(node.inputs) > 2
        bias = self.tensors.bounds(node.inputs[2]) if has_bias else (0, 0)
        # Other operators subtract zero points first, or count bits.
        is_plain = not node.domain and not node.op_type.endswith("Integer")
        sums = sums_between(node, self.tensors.bounds) if is_plain else None
        if sums is None or bias is None:
            return self.tensors.of(node.outputs[0]).type
        return smallest_for(sums[0] + min(bias[0], 0), sums[1] + max(bias[1], 0))

    def _reason(self, node: ir.Node) -> str:
        self.floats.add(node)
        if (said := self.reasons.get(name_of(node))) is not None:
            return said
        if node not in self.behind:
            return _BEFORE
        if is_quantizer(node):
            return _NO_LEVELS
        given = next(
            (value.name for value in node.inputs if value is not None and value.producer() in self.floats), None
        )
        return _AFTER if given is None else f"its input '{given}' is computed in floats"

    def _name(self, node: ir.Node) -> str:
        wanted = node.name or node.outputs[0].name or node.op_type
        name, number = wanted, 1
        while name in self.names:
            name, number = f"{wanted}_{number}", number + 1
        self.names.add(name)
        return name


_PLAIN = frozenset({"INT", "INTS", "FLOAT", "FLOATS", "STRING", "STRINGS"})


def attributes_of(node: ir.Node, version: int) -> Mapping[str, Attribute]:
    """Return the attributes of a node, with defaults filled in and explicit padding of windows."""
    given = {name: _value(attribute) for name, attribute in node.attributes.items()}
    return MappingProxyType(_defaults(node, version) | given | _windows(node))


def _value(attribute: ir.Attr) -> Attribute:
    if attribute.is_ref() or attribute.type.name not in _PLAIN:
        return attribute_text(attribute)
    return _frozen(attribute.value)


def _frozen(value: Any) -> Attribute:
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else value


def _defaults(node: ir.Node, version: int) -> dict[str, Attribute]:
    definition = definition_of(node)
    if definition is not None:
        known = ((attribute.name, attribute.default) for attribute in definition.attributes)
    else:
        schema = schema_of(node.domain, node.op_type, version)
        names = () if schema is None else schema.attributes
        known = ((name, default_attribute(node.domain, node.op_type, name, version)) for name in names)
    return {name: _frozen(value) for name, value in known if value is not None}


def _windows(node: ir.Node) -> dict[str, Attribute]:
    """Return kernel, strides, dilations and padding of a convolution or of pooling."""
    if node.domain or node.op_type not in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        return {}
    weight = static_shape(argument(node, 1))
    kernel = node.attributes.get_ints("kernel_shape") or (None if weight is None else weight[2:])
    if not kernel:
        return {}
    found = None if node.op_type == "ConvTranspose" else windows_of(node, kernel)
    axes = len(kernel)
    if found is not None:
        return {
            "auto_pad": "NOTSET",
            "kernel_shape": tuple(kernel),
            "strides": found.strides,
            "pads": found.pads,
            "dilations": found.dilations,
        }
    usual = {"strides": (1,) * axes, "dilations": (1,) * axes, "pads": (0,) * 2 * axes}
    missing = {name: value for name, value in usual.items() if name not in node.attributes}
    return {"kernel_shape": tuple(kernel), **missing}
