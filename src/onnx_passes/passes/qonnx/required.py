"""Attributes that QONNX requires, but other tools leave out because they can be inferred."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.passes.qonnx.dialect import GENERAL, USUAL_LAYOUTS

_WINDOWS = {
    (GENERAL, "MaxPoolNHWC"),
    *((domain, name) for domain in ("", CHANNELS_LAST_DOMAIN) for name in ("AveragePool", "MaxPool")),
    *((domain, name) for domain in ("", CHANNELS_LAST_DOMAIN) for name in ("Conv", "ConvTranspose")),
}
_EXPLICIT_PADDING = ("", "NOTSET")


def lacking(node: ir.Node) -> dict[str, ir.Attr]:
    """Return the missing attributes of a node that can be inferred."""
    operator = (node.domain, node.op_type)
    found: dict[str, ir.Attr] = {}
    if operator == (GENERAL, "MultiThreshold"):
        found = _layout(node)
    elif operator == (GENERAL, "Im2Col"):
        found = _input_shape(node)
    elif operator in _WINDOWS:
        found = _windows(node)
    return {name: attribute for name, attribute in found.items() if not _is_given(node.attributes.get(name))}


def _is_given(attribute: ir.Attr | None) -> bool:
    return attribute is not None and (attribute.is_ref() or bool(attribute.value))


def _layout(node: ir.Node) -> dict[str, ir.Attr]:
    """Return the layout, as versions of QONNX differ in its default."""
    layout = USUAL_LAYOUTS.get(rank(node.inputs[0]) or 0)
    return {} if layout is None else {"data_layout": ir.AttrString("data_layout", layout)}


def _input_shape(node: ir.Node) -> dict[str, ir.Attr]:
    shape = static_shape(node.inputs[0])
    return {} if shape is None else {"input_shape": ir.AttrString("input_shape", f"({','.join(map(str, shape))})")}


def _windows(node: ir.Node) -> dict[str, ir.Attr]:
    """Return explicit strides, padding and dilations, and the kernel size if the weights determine it."""
    kernel = node.attributes.get("kernel_shape")
    if kernel is not None and kernel.is_ref():
        return {}
    weights = static_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    own = (weights or ())[2:] if node.domain == "" else (weights or ())[1:-1]
    sizes = list(kernel.as_ints()) if kernel is not None and kernel.value else list(own)
    if not sizes:
        return {}
    wanted = {"kernel_shape": sizes, "strides": [1] * len(sizes)}
    if node.domain or node.attributes.get_string("auto_pad", "") in _EXPLICIT_PADDING:
        wanted["pads"] = [0] * 2 * len(sizes)
    if weights is not None or node.domain == CHANNELS_LAST_DOMAIN:
        wanted["dilations"] = [1] * len(sizes)
    found = {name: ir.AttrInt64s(name, numbers) for name, numbers in wanted.items()}
    return found | {"group": ir.AttrInt64("group", 1)} if weights is not None else found
