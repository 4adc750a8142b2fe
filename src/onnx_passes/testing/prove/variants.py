"""Variants of the models that an author gives for a rule: other sizes, and other constants in the same places."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.testing.fuzz.draws import Draws, UnbuildableError
from onnx_passes.testing.fuzz.values import convert, make

_SIZES = (2, 3, 1)
_CHANGES = ("keep", "keep", "double", "halve", "negate", "positive", "power", "mixed")


def varied(model: onnx.ModelProto, draws: Draws, *, dyadic: bool) -> onnx.ModelProto:
    """Copy a model with other sizes and constants; raises UnbuildableError if they do not fit together.

    ``dyadic`` rounds constants to eighths, so that what a rule computes of them is exact.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    _settle(copied, draws)
    # Of operators of other domains onnx cannot tell the shape: there static sizes stay as they are.
    is_standard = not any(node.domain for node in copied.graph.node)
    if is_standard:
        _resize(copied, draws)
    for tensor in copied.graph.initializer:
        _change(tensor, draws, dyadic=dyadic)
    for node in copied.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                _change(attribute.t, draws, dyadic=dyadic)
    try:
        inferred = cast(Any, onnx.shape_inference.infer_shapes)(copied, strict_mode=is_standard, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise UnbuildableError(str(error)) from error
    return inferred


def _axes(model: onnx.ModelProto) -> list[onnx.TensorShapeProto.Dimension]:
    overridable = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in overridable]
    return [dim for value in inputs for dim in value.type.tensor_type.shape.dim]


def _settle(model: onnx.ModelProto, draws: Draws) -> None:
    """Choose sizes for dynamic axes."""
    named: dict[str, int] = {}
    for dim in _axes(model):
        if not dim.HasField("dim_value"):
            name = dim.dim_param or str(len(named))
            dim.dim_value = named[name] if name in named else named.setdefault(name, draws.choose("dim", _SIZES))


def _resize(model: onnx.ModelProto, draws: Draws) -> None:
    """Choose another size for an axis now and then, and forget those that follow from it."""
    axes = _axes(model)
    if axes and draws.often("other size", percent=50):
        axes[draws.number(0, len(axes) - 1)].dim_value = draws.choose("dim", _SIZES)
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def _change(tensor: onnx.TensorProto, draws: Draws, *, dyadic: bool) -> None:
    dtype = ir.DataType(tensor.data_type)
    if not dtype.is_floating_point():
        return
    how = draws.choose("constant of the author", _CHANGES)
    array = onnx.numpy_helper.to_array(tensor)
    if dyadic:
        array = convert(np.rint(array.astype(np.float64) * 8) / 8, dtype)
    match how:
        case "keep":
            changed = array
        case "double" | "halve" | "negate":
            changed = array * np.asarray({"double": 2, "halve": 0.5, "negate": -1}[how], array.dtype)
        case _:
            changed = make(how, dtype, array.shape, draws.number(0, 3))
    name = tensor.name
    tensor.CopyFrom(ir.to_proto(ir.Tensor(convert(changed, dtype), dtype, name=name)))
