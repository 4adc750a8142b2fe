"""Models with thresholds for the fuzzer, which would not find consistent constants by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS

_CONSTANTS = (
    "float[1, 3] one = {2.5, -1.0, 0.5}, float[2, 3] two = {1.0, 0.0, 0.0, 4.0, -2.0, 3.0}, "
    "float[3] steps = {1.0, -2.0, 3.0}, float c = {-2.0}, float s = {2.0}"
)
SCALED = tuple(
    f"m = DOMAIN.MultiThreshold <out_scale: float = {scale}, out_bias: float = {bias}> (x, {rows})"
    for scale, bias, rows in (
        ("2.0", "0.0", "two"),
        ("4.0", "-6.0", "one"),
        ("2.0", "8.0", "one"),
        ("6.0", "2.0", "two"),
    )
)
_COUNTING = (
    'm = DOMAIN.MultiThreshold <data_layout: string = "NCHW"> (x, two)',
    'm = DOMAIN.MultiThreshold <data_layout: string = "NHWC", out_bias: float = -1.0> (x, one)',
    SCALED[0],
)
_WEIGHTED = (
    "m = DOMAIN.MultiThreshold (x, one)",
    "m = DOMAIN.MultiThreshold (x, two, steps)",
    "m = DOMAIN.MultiThreshold <out_bias: float = 1.0> (x, one, steps)",
)


def examples(
    behind: Sequence[str] = ("y = Identity (m)",),
    *,
    counting: Sequence[str] = _COUNTING,
    weighted: Sequence[str] = _WEIGHTED,
) -> Mapping[str, Any]:
    """Return fuzzer hints with unweighted thresholds in every domain, weighted ones, and the nodes after them."""
    nodes = [(domain, node) for domain in COUNTING_DOMAINS for node in counting]
    nodes += [(OUR_DOMAIN, node) for node in weighted]
    return {"models": [_model(domain, f"{node} {after}") for domain, node in nodes for after in behind]}


def _model(domain: str, body: str) -> str:
    shape = "1, 2, 3, 2" if "two, steps" not in body else "3, 2"
    return (
        f'<ir_version: 9, opset_import: ["" : 20, "{domain}" : 1]> '
        f"g (float[{shape}] x) => (float[{shape}] y) <{_CONSTANTS}> {{ {body.replace('DOMAIN', domain)} }}"
    )


def several_axes() -> Mapping[str, Any]:
    """Return fuzzer hints with thresholds that vary along several axes, for floats and for integers."""
    constants = "float[3, 2, 2] t = {0, 1, 2, 3, -1, 0, 5, 6, 1, 2, 0, 1}, float z = {0}, float b = {4}, float s = {1}"
    general = COUNTING_DOMAINS[0]
    quantized = f"q = {general}.Quant <signed: int = 1, narrow: int = 0> (x, s, z, b) "
    header = f'<ir_version: 9, opset_import: ["" : 20, "{OUR_DOMAIN}" : 1, "{general}" : 1]>'
    return {
        "models": [
            f"{header} g (float[{shape}] x) => (float[{shape}] y) <{constants}> "
            f"{{ {before} y = {OUR_DOMAIN}.MultiThreshold <out_bias: float = -1.0> ({name}, t) }}"
            for shape in ("4, 3, 2", "3, 2", "2, 1, 3, 2")
            for before, name in (("", "x"), (quantized, "q"))
        ]
    }
