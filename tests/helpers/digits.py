"""The digits examples as models that ONNX Runtime executes: the quantizer is defined as a function in the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes import examples, load

_QUANT = """
<domain: "qonnx.custom_op.general", opset_import: ["" : 18]>
Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (x, scale, zero, bits) => (y)
{
    one = Constant <value_float = 1.0> ()
    two = Constant <value_float = 2.0> ()
    signed_int = Constant <value_int: int = @signed> ()
    narrow_int = Constant <value_int: int = @narrow> ()
    is_signed = Cast <to = 1> (signed_int)
    is_narrow = Cast <to = 1> (narrow_int)
    range_bits = Sub (bits, is_signed)
    levels = Pow (two, range_bits)
    top = Sub (levels, one)
    is_unsigned = Sub (one, is_signed)
    taken = Mul (is_narrow, is_unsigned)
    most = Sub (top, taken)
    below = Neg (levels)
    lowest = Add (below, is_narrow)
    least = Mul (lowest, is_signed)
    scaled = Div (x, scale)
    moved = Add (scaled, zero)
    above = Max (moved, least)
    clipped = Min (above, most)
    rounded = Round (clipped)
    back = Sub (rounded, zero)
    y = Mul (back, scale)
}
"""


def executable_digits(name: str = "digits-mlp") -> ir.Model:
    """Load an example model with the definition of its quantizer."""
    model = load(examples.path(name))
    function = ir.from_proto(onnx.parser.parse_function(_QUANT))
    model.functions[function.identifier()] = function
    return model


def save_data(folder: Path) -> tuple[Path, Path]:
    """Write images and labels to files."""
    data = examples.digits()
    np.save(folder / "images.npy", data.image)
    np.save(folder / "labels.npy", data.label)
    return folder / "images.npy", folder / "labels.npy"
