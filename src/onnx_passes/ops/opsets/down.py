"""Write a node as a lower version of the operator set does.

Most versions of an operator differ in the types they take, in attributes and inputs that can be left out, or in what is
an attribute and what an input. All this is in the schemas: where a node uses nothing that the version below lacks, it
stays. Where a version means something else by the same words, ``opset_breaks`` says how to write it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper

from onnx_passes.graph.schemas import schema_of
from onnx_passes.ops.opsets.breaks import BREAKS, COUNTED_BACKWARDS_ALWAYS
from onnx_passes.ops.opsets.form import NodeForm, NoEquivalentError

_COUNT_BACKWARDS = 11
"""The version from which on axes may be negative."""
_Option = onnx.defs.OpSchema.FormalParameterOption


def descend(form: NodeForm, source: int, target: int) -> list[onnx.NodeProto]:
    """Return the nodes that compute the same in a lower version, the last one with the results.

    Raises NoEquivalentError with the feature that has no equivalent.
    """
    for version in range(source, target, -1):
        helpers, form.helpers = form.helpers, []
        for helper in helpers:
            used = frozenset(helper.output)
            inner = NodeForm(helper, form.constants, form.types, used, form.helpers, form.numbers)
            _step(inner, version)
            form.helpers.append(helper)
        _step(form, version)
    result = [*form.helpers, form.node]
    for node in result:
        _fit_types(form, node, target)
    return result


def _step(form: NodeForm, version: int) -> None:
    """Go from a version to the one below."""
    name = form.node.op_type
    new = schema_of("", name, version)
    if new is not None and new.since_version == version:
        if (name, version) in BREAKS:
            BREAKS[name, version](form)
        if form.node.op_type == name:
            old = schema_of("", name, version - 1)
            if old is None:
                form.refuse(f"there is no {name} below opset {version}")
            _fit(form, new, old)
    if version == _COUNT_BACKWARDS and form.node.op_type not in COUNTED_BACKWARDS_ALWAYS:
        _count_forwards(form)


def _fit(form: NodeForm, new: onnx.defs.OpSchema, old: onnx.defs.OpSchema) -> None:
    """Write a node by the schema below, if it uses nothing that is not there."""
    _fit_inputs(form, new, old)
    _fit_attributes(form, new, old)
    below = new.since_version - 1
    if any(form.node.output[len(old.outputs) :]) and old.outputs[-1].option is not _Option.Variadic:
        form.refuse(f"opset {below} has {len(old.outputs)} of its results only")


def _fit_inputs(form: NodeForm, new: onnx.defs.OpSchema, old: onnx.defs.OpSchema) -> None:
    """Make attributes of constant inputs that were attributes; others must be left out, or there already."""
    below = new.since_version - 1
    names = list(form.node.input)
    for index, parameter in enumerate(new.inputs):
        if index < len(names) and names[index] and parameter.name in old.attributes.keys() - new.attributes.keys():
            array = form.required(index, parameter.name)
            form.set(parameter.name, _as_attribute(form, array, old.attributes[parameter.name]))
            names[index] = ""
    form.set_inputs(names)
    count = len(old.inputs)
    variadic = bool(old.inputs) and old.inputs[-1].option is _Option.Variadic
    if len(form.node.input) > count and not variadic:
        form.refuse(f"opset {below} has no input '{new.inputs[count].name}'")
    for index, parameter in enumerate(old.inputs):
        if parameter.option is _Option.Single and not form.input(index):
            form.refuse(f"opset {below} needs the input '{parameter.name}'")


def _as_attribute(form: NodeForm, array: np.ndarray, declared: Any) -> Any:
    numbers = array.reshape(-1).tolist()
    kind = onnx.AttributeProto.AttributeType.Name(int(declared.type))
    if kind.startswith("FLOAT") and not np.array_equal(array, array.astype(np.float32), equal_nan=True):
        form.refuse(f"'{declared.name}' is more precise than an attribute can be")
    if kind in ("INT", "FLOAT") and len(numbers) != 1:
        form.refuse(f"'{declared.name}' is not one number")
    return numbers if kind in ("INTS", "FLOATS") else numbers[0]


def _fit_attributes(form: NodeForm, new: onnx.defs.OpSchema, old: onnx.defs.OpSchema) -> None:
    """Drop attributes at their default, write defaults that differ in the version below, refuse all others."""
    below = new.since_version - 1
    for attribute in list(form.node.attribute):
        if attribute.name in old.attributes:
            continue
        declared = new.attributes.get(attribute.name)
        value = onnx.helper.get_attribute_value(attribute)
        if declared is None or not declared.default_value.name or value != _default(declared):
            shown = value.decode() if isinstance(value, bytes) else value
            form.refuse(f"opset {below} has no attribute '{attribute.name}' (it is {shown})")
        form.drop(attribute.name)
    given = {attribute.name for attribute in form.node.attribute}
    for name, declared in old.attributes.items():
        if name in given:
            continue
        if declared.required:
            form.refuse(f"opset {below} needs the attribute '{name}'")
        meant = new.attributes.get(name)
        if meant is not None and meant.default_value.name and _default(meant) != _default(declared):
            form.set(name, _default(meant))


def _default(declared: Any) -> Any:
    return onnx.helper.get_attribute_value(declared.default_value) if declared.default_value.name else None


def _fit_types(form: NodeForm, node: onnx.NodeProto, version: int) -> None:
    """Refuse types that a version does not take, as far as they are known."""
    schema = schema_of("", node.op_type, version)
    if schema is None:
        form.refuse(f"there is no {node.op_type} in opset {version}")
    bound: dict[str, str] = {}
    for names, parameters in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for index, name in enumerate(names):
            parameter = parameters[min(index, len(parameters) - 1)]
            spelled = _spelled_type(form, name)
            if not spelled or (names is node.output and name not in form.used):
                continue
            if spelled not in parameter.types:
                form.refuse(f"opset {version} does not allow '{parameter.name}' to be {spelled}")
            if parameter.is_homogeneous and bound.setdefault(parameter.type_str, spelled) != spelled:
                other = bound[parameter.type_str]
                form.refuse(f"opset {version} takes {other} and {spelled} for '{parameter.name}' not at once")


def _spelled_type(form: NodeForm, name: str) -> str:
    """Return a type as schemas write it; an empty text if it is unknown."""
    if name in form.constants:
        return f"tensor({_element(form.constants[name].data_type)})"
    return _spelled(form.types[name]) if name in form.types else ""


def _spelled(type_: onnx.TypeProto) -> str:
    match type_.WhichOneof("value"):
        case "tensor_type" if type_.tensor_type.elem_type:
            return f"tensor({_element(type_.tensor_type.elem_type)})"
        case "sequence_type":
            inner = _spelled(type_.sequence_type.elem_type)
            return f"seq({inner})" if inner else ""
        case "optional_type":
            inner = _spelled(type_.optional_type.elem_type)
            return f"optional({inner})" if inner else ""
        case _:
            return ""


def _element(dtype: int) -> str:
    return onnx.TensorProto.DataType.Name(dtype).lower()


def _count_forwards(form: NodeForm) -> None:
    """Replace negative axes."""
    length: int | None = None
    for attribute in form.node.attribute:
        if attribute.name not in ("axis", "axes"):
            continue
        axes = [attribute.i] if attribute.name == "axis" else list(attribute.ints)
        if min(axes, default=0) >= 0:
            continue
        if length is None:
            length = _counted(form, len(axes))
        if attribute.name == "axis":
            attribute.i %= length
        else:
            attribute.ints[:] = [axis % length for axis in axes]


def _counted(form: NodeForm, axes: int) -> int:
    """Return how many axes there are that negative ones count back from."""
    try:
        return form.rank(0) + (axes if form.node.op_type == "Unsqueeze" else 0)
    except NoEquivalentError as error:
        raise NoEquivalentError("negative axes need opset 11, and the rank is not known") from error
