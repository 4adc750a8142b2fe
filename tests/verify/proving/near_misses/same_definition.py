"""Near misses of operators that get another name, domain or spelling of their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

QONNX, BREVITAS, FINN = "qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"
HEAD = f'<ir_version: 9, opset_import: ["": 17, "{BREVITAS}": 1, "{QONNX}": 1, "{FINN}": 1]>'
CONSTANTS = (
    "float s = {0.5}, float z = {0}, float b = {4}, float[1,3] t = {-1, 0, 2}, float w = {3},"
    " float[2,2] m = {1, 2, 3, 4}"
)


@dataclass(frozen=True)
class Update:
    """What becomes of a node: fields and attributes; no attribute where there is None."""

    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    attributes: Mapping[str, ir.Attr | None] = field(default_factory=dict[str, "ir.Attr | None"])


@dataclass(frozen=True)
class Renaming:
    """A node, an update that keeps its definition, and updates that do not; all are on top of the first one."""

    node: str
    right: Update
    wrong: tuple[Update, ...]

    def model(self) -> ir.Model:
        """Return a model of this node."""
        return ir.from_onnx_text(f"{HEAD} g (float[2,2] x) => (float[2,2] y) <{CONSTANTS}> {{ y = {self.node} }}")


def number(name: str, value: int) -> Mapping[str, ir.Attr]:
    return {name: ir.AttrInt64(name, value)}


def real(name: str, value: float) -> Mapping[str, ir.Attr]:
    return {name: ir.AttrFloat32(name, value)}


def text(name: str, value: str) -> Mapping[str, ir.Attr]:
    return {name: ir.AttrString(name, value)}


def to(op_type: str, domain: str = QONNX) -> Mapping[str, str]:
    return {"op_type": op_type, "domain": domain}


QUANT = f'{BREVITAS}.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (x, s, z, b)'
COUNT = f'{FINN}.MultiThreshold <out_dtype: string = "UINT2", data_layout: string = "NC"> (x, t)'
RENAMINGS = (
    Renaming(
        QUANT,
        Update(to("Quant")),
        (
            Update(to("Quant"), number("signed", 0)),
            Update(to("Quant"), number("narrow", 1)),
            Update(to("Quant"), text("rounding_mode", "FLOOR")),
            Update(to("Quant"), text("rounding_mode", "CEIL")),
            Update(to("Quant"), text("rounding_mode", "ROUND_TO_ZERO")),
            Update(to("Quant"), text("rounding_mode", "HALF_UP")),
            Update(to("BipolarQuant")),
            Update(to("Trunc")),
            Update(to("FloatQuant")),
            Update(to("MultiThreshold")),
            Update(to("Quant", "some.where")),
            Update(to("Quant", "")),
            Update(to("QuantizeLinear", "")),
            Update({**to("Quant"), "overload": "other"}),
        ),
    ),
    Renaming(
        QUANT.replace("Quant", "IntQuant", 1).replace(BREVITAS, QONNX),
        Update(to("Quant")),
        (
            Update(to("Quant"), number("signed", 0)),
            Update(to("Quant"), number("narrow", 1)),
            Update(to("FloatQuant")),
        ),
    ),
    Renaming(
        COUNT,
        Update(to("MultiThreshold")),
        (
            Update(to("MultiThreshold"), real("out_scale", 2.0)),
            Update(to("MultiThreshold"), real("out_bias", -1.0)),
            Update(to("Quant")),
            Update(to("MultiThreshold", "some.where")),
        ),
    ),
)
