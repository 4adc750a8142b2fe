"""Where version 0.4 had the base classes of passes: see ``onnx_passes.legacy.base``."""

from onnx_passes.legacy.base import Analysis as Analysis
from onnx_passes.legacy.base import Annotation as Annotation
from onnx_passes.legacy.base import Pass as Pass
from onnx_passes.legacy.base import RewriteRulePass as RewriteRulePass
from onnx_passes.legacy.base import RewriteRuleSetPass as RewriteRuleSetPass
from onnx_passes.legacy.base import Transformation as Transformation
