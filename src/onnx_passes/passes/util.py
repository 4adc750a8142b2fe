"""Where version 0.4 had helpers of rules."""

from onnx_passes.graph.constants import is_constant as is_constant
