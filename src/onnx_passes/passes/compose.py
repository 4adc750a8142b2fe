"""Where version 0.4 had sequences of passes: see ``onnx_passes.legacy.compose``."""

from onnx_passes.legacy.compose import ComposePass as ComposePass
