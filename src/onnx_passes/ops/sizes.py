"""Inputs that decide about the shapes of results by their elements: sizes, counts, axes and scales of images."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnx_passes.graph.operators import Interface

SHAPE_INPUTS: Interface[Collection[int]] = Interface("sizes", "which inputs decide about the shapes of its results")
SHAPE_INPUTS.attach(
    {
        **dict.fromkeys(("ConstantOfShape", "NonZero", "Unique"), (0,)),
        **dict.fromkeys(("Compress", "Expand", "OneHot", "Reshape", "Split", "SplitToSequence", "TopK"), (1,)),
        **dict.fromkeys(("AffineGrid", "CenterCropPad", "Squeeze", "Unsqueeze", "Upsample"), (1,)),
        **{f"Reduce{name}": (1,) for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")},
        "ReduceSumSquare": (1,),
        **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
        "Col2Im": (1, 2),
        "DFT": (1,),
        "MaxUnpool": (2,),
        "MelWeightMatrix": (0, 1),
        "NonMaxSuppression": (0, 1, 2, 3, 4),
        "Pad": (1, 3),
        "Range": (0, 1, 2),
        "Resize": (1, 2, 3),
        "STFT": (1, 3),
        "Slice": (1, 2, 3, 4),
        "Tile": (1, 2),
    }
)


def decides_size(node: ir.Node, index: int) -> bool:
    """Return whether the elements of an input decide about the shape of a result."""
    return index in (SHAPE_INPUTS.get(node) or ())
