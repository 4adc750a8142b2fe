"""The ``op`` of a rewrite: builds replacement nodes, promotes numbers and arrays, leaves no trace if declined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from onnx_passes.core.errors import RewriteError
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.edits import detach
from onnx_passes.rewrite.schemas import signature


class Builder:
    """Builds nodes outside of any graph; ``op.Add(x, 1.0)`` types the number like ``x``.

    Reserved keywords are onnxscript's: ``_domain``, ``_version``, ``_outputs``, ``_name``. All other keywords
    are attributes, given as Python values or ``ir.Attr``; ``None`` leaves an attribute out.
    """

    def __init__(self, opset_imports: Mapping[str, int], *, initializers_allowed: bool = True) -> None:
        self.nodes: list[ir.Node] = []
        self.initializers: list[ir.Value] = []
        self.opsets: dict[str, int | None] = {}
        self._imports = opset_imports
        self._initializers_allowed = initializers_allowed

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        return lambda *args, **kwargs: self.op(op_type, *args, **kwargs)

    def op(
        self,
        op_type: str,
        /,
        *inputs: Any,
        _domain: str = "",
        _version: int | None = None,
        _outputs: int | Sequence[str] = 1,
        _name: str | None = None,
        **attributes: Any,
    ) -> Any:
        """Build a node; returns its output, or the list of its outputs if there are several."""
        values = self._promote(op_type, _domain, _version, inputs)
        names = [None] * _outputs if isinstance(_outputs, int) else list(_outputs)
        node = ir.Node(_domain, op_type, values, attributes=_attributes(attributes), num_outputs=len(names), name=_name)
        for output, name in zip(node.outputs, names, strict=True):
            output.name = name
        self._type_outputs(node, _version)
        self.nodes.append(node)
        if _version is not None or _domain not in self.opsets:
            self.opsets[_domain] = _version
        return node.outputs[0] if len(node.outputs) == 1 else list(node.outputs)

    def initializer(self, tensor: ir.TensorProtocol | ArrayLike, name: str | None = None) -> ir.Value:
        """Make a constant; the name is a wish that gives way to names in use."""
        held = tensor if isinstance(tensor, ir.TensorProtocol) else _held(tensor)
        if not self._initializers_allowed:
            return self.op("Constant", value=ir.AttrTensor("value", held))
        value = ir.Value(
            name=name or held.name or "constant",
            type=ir.TensorType(held.dtype),
            shape=_shape(held),
            const_value=held,
        )
        self.initializers.append(value)
        return value

    def discard(self) -> None:
        """Undo everything: no value remembers that it was used here."""
        for node in self.nodes:
            detach(node)
        self.nodes.clear()
        self.initializers.clear()

    def _promote(self, op_type: str, domain: str, version: int | None, inputs: Sequence[Any]) -> list[ir.Value | None]:
        if all(value is None or isinstance(value, ir.Value) for value in inputs):
            return list(inputs)
        types = signature(domain, op_type, version or self._imports.get(domain, 1))
        known = [_dtype_of(value) for value in inputs]
        promoted: list[ir.Value | None] = []
        for index, value in enumerate(inputs):
            if value is None or isinstance(value, ir.Value):
                promoted.append(value)
                continue
            wanted = types.dtype_of_input(index, known) if types is not None else None
            promoted.append(self.initializer(_tensor(value, wanted, f"input {index} of {op_type}")))
        return promoted

    def _type_outputs(self, node: ir.Node, version: int | None) -> None:
        """Type the outputs as far as the schema tells; rules that follow, and promotion, need it."""
        if node.op_type == "Constant" and node.domain == "":
            output = node.outputs[0]
            output.const_value = held = constant_tensor(output)
            if held is not None:
                output.type, output.shape = ir.TensorType(held.dtype), _shape(held)
            return
        if node.op_type == "Cast" and node.domain == "" and "to" in node.attributes:
            if not node.attributes["to"].is_ref():
                node.outputs[0].type = ir.TensorType(ir.DataType(node.attributes["to"].as_int()))
            return
        types = signature(node.domain, node.op_type, version or self._imports.get(node.domain, 1))
        if types is None:
            return
        known = [value.dtype if value is not None else None for value in node.inputs]
        for index, output in enumerate(node.outputs):
            dtype = types.dtype_of_output(index, known)
            if dtype is not None:
                output.type = ir.TensorType(dtype)


def _held(array: Any) -> ir.TensorProtocol:
    return cast(Any, ir.Tensor)(np.asarray(array))


def _shape(tensor: ir.TensorProtocol) -> ir.Shape:
    return ir.Shape([int(cast(Any, dim)) for dim in tensor.shape])


def _dtype_of(value: Any) -> ir.DataType | None:
    if isinstance(value, ir.Value):
        return value.dtype
    if isinstance(value, np.ndarray | np.generic):
        return ir.DataType.from_numpy(cast(Any, value).dtype)
    return value.dtype if isinstance(value, ir.TensorProtocol) else None


def _tensor(value: Any, wanted: ir.DataType | None, place: str) -> ir.TensorProtocol:
    """Turn a Python number, list, array or tensor into a tensor of the wanted type."""
    if isinstance(value, np.ndarray | np.generic):
        return _held(cast(Any, value))
    if isinstance(value, ir.TensorProtocol):
        return value
    if not isinstance(value, bool | int | float | list | tuple):
        raise RewriteError(
            f"{type(value).__name__} cannot be {place}", hint="give a value, a number, a list or an array"
        )
    if wanted is None:
        raise RewriteError(
            f"the type of {value!r} as {place} is not known", hint="give a numpy array of the type you mean"
        )
    return ir.Tensor(np.asarray(value, dtype=wanted.numpy()), dtype=wanted)


def _attributes(given: Mapping[str, Any]) -> list[ir.Attr]:
    """Convert attributes; what is common goes a short way, the rest through onnx_ir's slow conversion."""
    attributes: list[ir.Attr] = []
    for name, value in given.items():
        if isinstance(value, ir.Attr):
            attributes.append(_renamed(value, name))
        elif isinstance(value, bool | int | np.integer):
            attributes.append(ir.AttrInt64(name, int(cast(Any, value))))
        elif isinstance(value, float | np.floating):
            attributes.append(ir.AttrFloat32(name, float(cast(Any, value))))
        elif isinstance(value, str):
            attributes.append(ir.AttrString(name, value))
        elif isinstance(value, np.ndarray):
            attributes.append(ir.AttrTensor(name, _held(cast(Any, value))))
        elif value is not None:
            attributes.extend(ir.convenience.convert_attributes({name: value}))
    return attributes


def _renamed(attribute: ir.Attr, name: str) -> ir.Attr:
    """Let an attribute taken from another node have the name that it is given here."""
    if attribute.name == name:
        return attribute
    if attribute.is_ref():
        assert attribute.ref_attr_name is not None
        return ir.RefAttr(name, attribute.ref_attr_name, attribute.type)
    return ir.Attr(name, attribute.type, attribute.value)
