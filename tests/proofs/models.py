"""Models in ONNX text."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir

IMPORTS = (
    '"" : 21, "com.microsoft" : 1, "onnx_passes" : 1, "qonnx.custom_op.general" : 1, "some.where" : 1, "local" : 1'
)


def model(text: str, imports: str = IMPORTS) -> ir.Model:
    """Read a model; a graph alone gets operator sets."""
    head = f"<ir_version: 10, opset_import: [{imports}]>\n"
    return ir.from_proto(onnx.parser.parse_model(text if text.lstrip().startswith("<") else head + text))


def pair(interface: str, before: str, after: str, imports: str = IMPORTS) -> tuple[ir.Model, ir.Model]:
    """Read two models with one interface: ``float[2] x => float[2] y``."""
    inputs, outputs = interface.split("=>")
    texts = [f"g ({inputs}) => ({outputs}) {{ {body} }}" for body in (before, after)]
    return model(texts[0], imports), model(texts[1], imports)
