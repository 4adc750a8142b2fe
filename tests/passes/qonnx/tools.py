"""Models with quantizers, and stored results of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from tests.passes.tools import model_of

GENERAL = "qonnx.custom_op.general"
X = np.array([[-9, -2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 9, 0.26, np.inf, np.nan]], np.float32)


def quantized(
    attributes: str = 'signed = 1, narrow = 0, rounding_mode = "ROUND"',
    *,
    domain: str = GENERAL,
    operator: str = "Quant",
    version: int = 1,
    opset: int = 18,
) -> ir.Model:
    """Make a model of one quantizer to four bits in steps of a half."""
    text = f"""
    quantized (float[1, 12] x) => (float[1, 12] y)
    <float[1, 1, 1] scale = {{0.5}}, float zero = {{0.0}}, float bits = {{4.0}}>
    {{
        [quantizer] y0 = {domain}.{operator} <{attributes}> (x, scale, zero, bits)
        y = Reshape (y0, shape)
    }}
    """.replace("float bits = {4.0}>", "float bits = {4.0}, int64[2] shape = {1, 12}>")
    return model_of(text, opset=opset, domains=f'"{domain}" : {version}')


def stored(path: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Read the inputs of one sample, and what another tool made of it."""
    data = np.load(path.with_suffix(".npz"))
    return tuple({k[len(kind) :]: v for k, v in data.items() if k.startswith(kind)} for kind in ("in_b1__", "out_b1__"))  # type: ignore[return-value]
