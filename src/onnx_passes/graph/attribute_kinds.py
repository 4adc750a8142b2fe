"""Kinds of attributes by name, for standard operators and those of quantized networks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

import onnx

if TYPE_CHECKING:
    from collections.abc import Mapping

_INT, _INTS, _STRING, _FLOAT = (
    int(kind)
    for kind in (
        onnx.AttributeProto.INT,
        onnx.AttributeProto.INTS,
        onnx.AttributeProto.STRING,
        onnx.AttributeProto.FLOAT,
    )
)

KIND_NAMES = {
    int(onnx.AttributeProto.FLOAT): "a number",
    int(onnx.AttributeProto.INT): "an integer",
    int(onnx.AttributeProto.STRING): "a text",
    int(onnx.AttributeProto.TENSOR): "a tensor",
    int(onnx.AttributeProto.GRAPH): "a graph",
    int(onnx.AttributeProto.FLOATS): "a list of numbers",
    int(onnx.AttributeProto.INTS): "a list of integers",
    int(onnx.AttributeProto.STRINGS): "a list of texts",
    int(onnx.AttributeProto.TENSORS): "a list of tensors",
    int(onnx.AttributeProto.GRAPHS): "a list of graphs",
    int(onnx.AttributeProto.SPARSE_TENSOR): "a sparse tensor",
    int(onnx.AttributeProto.SPARSE_TENSORS): "a list of sparse tensors",
    int(onnx.AttributeProto.TYPE_PROTO): "a type",
    int(onnx.AttributeProto.TYPE_PROTOS): "a list of types",
}
"""Kinds of attributes as people say them."""

_WINDOW = {"kernel_shape": _INTS, "strides": _INTS, "pads": _INTS, "dilations": _INTS}
_UNFOLD = {"stride": _INTS, "kernel_size": _INTS, "pad_amount": _INTS, "dilations": _INTS, "input_shape": _STRING}
_GENERAL = {
    "Col2Im": _UNFOLD,
    "DebugMarker": {"export_debug_name": _STRING},
    "FloatQuant": {
        **dict.fromkeys(("has_inf", "has_infinity", "has_nan", "has_subnormal", "saturation"), _INT),
        "rounding_mode": _STRING,
    },
    "Im2Col": {**_UNFOLD, "pad_value": _INT, "depthwise": _INT},
    "IntQuant": {"signed": _INT, "narrow": _INT, "rounding_mode": _STRING},
    "LayoutConverter": {"from_layout": _STRING, "to_layout": _STRING},
    "MaxPoolNHWC": {**_WINDOW, "ceil_mode": _INT},
    "MultiThreshold": {"out_dtype": _STRING, "out_scale": _FLOAT, "out_bias": _FLOAT, "data_layout": _STRING},
    "Quant": {"signed": _INT, "narrow": _INT, "rounding_mode": _STRING},
    "QuantAvgPool2d": {
        **dict.fromkeys(("stride", "kernel", "ibits", "obits", "signed"), _INT),
        "data_layout": _STRING,
    },
    "Trunc": {"signed": _INT, "narrow": _INT, "rounding_mode": _STRING},
}
_CHANNELS_LAST = {
    "AveragePool": {**_WINDOW, "ceil_mode": _INT, "count_include_pad": _INT, "auto_pad": _STRING},
    "BatchNormalization": {"epsilon": _FLOAT, "momentum": _FLOAT},
    "Conv": {**_WINDOW, "group": _INT, "auto_pad": _STRING},
    "MaxPool": {**_WINDOW, "ceil_mode": _INT, "auto_pad": _STRING},
}
QUANTIZED: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    **dict.fromkeys(
        ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn", "onnx_passes"), _GENERAL
    ),
    "qonnx.custom_op.channels_last": _CHANNELS_LAST,
}
"""By domain and operator, what the operators of quantized networks want."""


@functools.cache
def attribute_kinds(domain: str, operator: str, version: int | None) -> Mapping[str, int]:
    """Return the kind of each attribute that an operator is known to have; nothing for unknown operators."""
    if domain in QUANTIZED:
        return QUANTIZED[domain].get(operator, {})
    standard = "" if domain == "ai.onnx" else domain
    try:
        if version is None:
            schema = onnx.defs.get_schema(operator, standard)
        else:
            schema = onnx.defs.get_schema(operator, version, standard)
    except onnx.defs.SchemaError:
        return {}
    return {name: int(cast(Any, attribute.type)) for name, attribute in schema.attributes.items()}
