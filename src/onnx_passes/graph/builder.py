"""The ``op`` of a rewrite: builds replacement nodes, converts Python values to attributes, and can undo everything."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

from onnx_passes.core.errors import RewriteError
from onnx_passes.graph.constants import constant_tensor, is_constant_node
from onnx_passes.graph.edits import copy_type, detach, subgraphs_of
from onnx_passes.graph.schemas import Signature, signature


class Builder:
    """Builds nodes outside of any graph; ``op.Add(x, 1.0)`` types the number like ``x``.

    Reserved keywords are onnxscript's: ``_domain``, ``_version``, ``_outputs``, ``_name``. All other keywords
    are attributes, given as Python values or ``ir.Attr``; ``None`` omits an attribute. ``places`` maps new nodes to
    the node after which they are inserted, if that is not the root of the rewrite.
    """

    def __init__(
        self,
        opset_imports: Mapping[str, int],
        *,
        initializers_allowed: bool = True,
        graphs_of_model: Container[ir.Graph] = (),
    ) -> None:
        self.nodes: list[ir.Node] = []
        self.initializers: list[ir.Value] = []
        self.opsets: dict[str, int | None] = {}
        self.places: dict[ir.Node, ir.Node] = {}
        self._imports = opset_imports
        self._initializers_allowed = initializers_allowed
        self._graphs_of_model = graphs_of_model

    @property
    def opset(self) -> int:
        """Return the version of the standard operator set."""
        return self._imports.get("", 1)

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
        _outputs: int | Sequence[str | None] = 1,
        _name: str | None = None,
        **attributes: Any,
    ) -> Any:
        """Build a node; return its output, or the list of its outputs if there are several."""
        domain = "" if _domain == "ai.onnx" else _domain
        types = signature(domain, op_type, _version or self._imports.get(domain, 1))
        values = self._promote(op_type, types, inputs)
        names = [None] * _outputs if isinstance(_outputs, int) else list(_outputs)
        made = make_attributes(attributes, {} if types is None else types.attributes) if attributes else ()
        node = ir.Node(domain, op_type, values, attributes=made, num_outputs=len(names), name=_name)
        for output, name in zip(node.outputs, names, strict=True):
            output.name = name
        type_outputs(node, types)
        self.nodes.append(node)
        if _version is not None or domain not in self.opsets:
            self.opsets[domain] = _version
        return node.outputs[0] if len(node.outputs) == 1 else list(node.outputs)

    def like(self, node: ir.Node, inputs: Sequence[Any], **changed: Any) -> Any:
        """Build a copy of a node on other inputs, with changed attributes or ``_outputs`` if given.

        Outputs that the original omits are omitted here, too.
        """
        names = ["" if output.name == "" else None for output in node.outputs]
        attributes: dict[str, Any] = {"_outputs": names, **node.attributes, **changed}
        return self.op(node.op_type, *inputs, _domain=node.domain, **attributes)

    def initializer(self, tensor: ir.TensorProtocol | ArrayLike, name: str | None = None) -> ir.Value:
        """Make a constant; the name is a preference that avoids names in use."""
        held = _as_tensor(tensor)
        if not self._initializers_allowed:
            return self.op("Constant", value=ir.AttrTensor("value", held), _outputs=[name or held.name])
        value = ir.Value(
            name=name or held.name or "constant",
            type=ir.TensorType(held.dtype),
            shape=_shape(held),
            const_value=held,
        )
        self.initializers.append(value)
        return value

    def discard(self) -> None:
        """Undo everything: no value keeps a use by the built nodes."""
        for node in self.nodes:
            self._let_go(node)
        self.nodes.clear()
        self.initializers.clear()
        self.opsets.clear()

    def keep_only(self, results: Sequence[ir.Value]) -> None:
        """Discard the nodes that the results do not need."""
        needed = {value.producer() for value in results}
        kept: list[ir.Node] = []
        for node in reversed(self.nodes):
            users = [user for output in node.outputs for user in output.consumers()]
            # A consumer inside a graph is in a subgraph of a node built here.
            if node in needed or any(user in needed or user.graph is not None for user in users):
                needed.add(node)
                kept.append(node)
            else:
                self._let_go(node)
        self.nodes = kept[::-1]
        self.initializers = [value for value in self.initializers if value in results or value.uses()]

    def take(self, other: Builder, result: ir.Value) -> None:
        """Take over from another builder the nodes that a result needs and that are in no graph yet."""
        needed, waiting = set[ir.Node](), [result.producer()]
        while waiting:
            node = waiting.pop()
            if node is not None and node.graph is None and node not in needed:
                needed.add(node)
                waiting.extend(value.producer() for value in node.inputs if value is not None)
        used = {value for node in needed for value in node.inputs} | {result}
        for mine, theirs in ((self.nodes, other.nodes), (self.initializers, other.initializers)):
            taken = [item for item in theirs if item in needed or item in used]
            mine.extend(cast(Any, taken))
            theirs[:] = cast(Any, [item for item in theirs if item not in needed and item not in used])
        self.opsets.update({node.domain: None for node in needed})
        self.places.update({node: place for node in needed if (place := other.places.get(node)) is not None})

    def _let_go(self, node: ir.Node) -> None:
        """Remove the uses of values by a node and by its subgraphs, unless these belong to the model."""
        detach(node)
        for graph in subgraphs_of(node) if node.attributes else ():
            if graph not in self._graphs_of_model:
                for inner in graph.all_nodes():
                    detach(inner)

    def _promote(self, op_type: str, types: Signature | None, inputs: Sequence[Any]) -> list[ir.Value | None]:
        if all(value is None or isinstance(value, ir.Value) for value in inputs):
            return list(inputs)
        known = [_type_of(value) for value in inputs]
        promoted: list[ir.Value | None] = []
        for index, value in enumerate(inputs):
            if value is None or isinstance(value, ir.Value):
                promoted.append(value)
                continue
            others = [type_ if i != index else None for i, type_ in enumerate(known)]
            promoted.append(self.initializer(_promoted(value, index, types, others, f"input {index} of {op_type}")))
        return promoted


def type_outputs(node: ir.Node, types: Signature | None) -> None:
    """Set the types of outputs as far as the schema determines them; later rules and promotion need them."""
    if is_constant_node(node):
        output = node.outputs[0]
        output.const_value = held = constant_tensor(output)
        if held is not None:
            output.type, output.shape = ir.TensorType(held.dtype), _shape(held)
        return
    if node.domain == "" and node.op_type == "Cast":
        target = node.attributes.get("to")
        if target is not None and not target.is_ref():
            node.outputs[0].type = ir.TensorType(ir.DataType(target.as_int()))
        return
    if types is None:
        return
    known = [None if value is None else value.type for value in node.inputs]
    for index, output in enumerate(node.outputs):
        type_ = types.type_of_output(index, known)
        if type_ is not None:
            output.type = copy_type(type_)


def _is_number(value: object) -> bool:
    """Return whether a value is a Python number, or a list of numbers, whose element type is not determined yet."""
    return isinstance(value, bool | int | float | list | tuple)


def _promoted(
    value: Any, index: int, types: Signature | None, others: Sequence[ir.TypeProtocol | None], place: str
) -> ir.TensorProtocol:
    """Convert a number, list, array or tensor to a tensor of the type that the other inputs require."""
    wanted = None if types is None else types.required_dtype(index, others)
    if not _is_number(value):
        tensor = _as_tensor(value)
        if wanted not in (None, tensor.dtype):
            raise RewriteError(f"{place} is {tensor.dtype.name}, where {wanted.name} is needed", hint="convert it")
        return tensor
    array = np.asarray(value)
    if wanted is None and types is not None:
        wanted = types.natural_dtype(index, others, integer=array.dtype.kind in "iu")
    return _typed(array, wanted, place)


def _as_tensor(value: Any) -> ir.TensorProtocol:
    if isinstance(value, np.ndarray | np.generic) or _is_number(value):
        return cast(Any, ir.Tensor)(np.asarray(cast(Any, value)))
    # The check of a protocol tests each of its members, so that the usual class is tested first.
    if isinstance(value, ir.Tensor | ir.TensorProtocol):
        return cast(ir.TensorProtocol, value)
    raise RewriteError(f"{type(value).__name__} is not a tensor", hint="give a value, a number, a list or an array")


def _shape(tensor: ir.TensorProtocol) -> ir.Shape:
    return ir.Shape([int(cast(Any, dim)) for dim in tensor.shape])


def _type_of(value: Any) -> ir.TypeProtocol | None:
    if isinstance(value, ir.Value):
        return value.type
    if isinstance(value, np.ndarray):
        return ir.TensorType(ir.DataType.from_numpy(cast(Any, value).dtype))
    return None if value is None or _is_number(value) else ir.TensorType(_as_tensor(value).dtype)


def _typed(array: np.ndarray, wanted: ir.DataType | None, place: str) -> ir.TensorProtocol:
    """Convert numbers to the required type, which must hold them up to the rounding of floats."""
    text = array.tolist()
    if wanted is None:
        raise RewriteError(
            f"the type of {text} as {place} is not known", hint="give a numpy array of the type you mean"
        )
    with np.errstate(all="ignore"):
        typed = array.astype(wanted.numpy())
        if wanted.is_floating_point():
            fits = np.array_equal(np.isfinite(array), np.isfinite(typed))
        else:
            fits = array.dtype.kind in "biuf" and np.array_equal(typed.astype(array.dtype), array)
    if not fits:
        raise RewriteError(f"{text} as {place} does not fit into {wanted.name}", hint="cast the other inputs first")
    return ir.Tensor(typed, dtype=wanted)


_LISTS = frozenset({ir.AttributeType.INTS, ir.AttributeType.FLOATS})


def make_attributes(given: Mapping[str, Any], wanted: Mapping[str, ir.AttributeType]) -> list[ir.Attr]:
    """Convert attributes; ``None`` omits one, attributes unknown to the schema are typed by their value."""
    return [
        _renamed(value, name) if isinstance(value, ir.Attr) else _attribute(name, value, wanted.get(name))
        for name, value in given.items()
        if value is not None
    ]


def _attribute(name: str, value: Any, wanted: ir.AttributeType | None) -> ir.Attr:
    """Convert common kinds directly, the rest by onnx_ir's slow conversion."""
    if wanted in _LISTS and isinstance(value, list | tuple | np.ndarray):
        items = cast(Iterable[Any], value)
        if wanted is ir.AttributeType.INTS:
            return ir.AttrInt64s(name, [operator.index(item) for item in items])
        return ir.AttrFloat32s(name, [float(item) for item in items])
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, cast(Any, ir.Tensor)(value))
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
        number = cast(float, value)
        is_float = isinstance(value, float | np.floating) or wanted is ir.AttributeType.FLOAT
        return ir.AttrFloat32(name, float(number)) if is_float else ir.AttrInt64(name, int(number))
    return ir.convenience.convert_attributes({name: value})[0]


def _renamed(attribute: ir.Attr, name: str) -> ir.Attr:
    """Return an attribute of another node under a new name."""
    if attribute.name == name:
        return attribute
    if attribute.is_ref():
        assert attribute.ref_attr_name is not None
        return ir.RefAttr(name, attribute.ref_attr_name, attribute.type)
    return ir.Attr(name, attribute.type, attribute.value)
