"""Claims of passes: decorators, and the error for a violated claim."""

from onnx_passes.check.claims import equality as equality
from onnx_passes.check.claims import metric as metric
from onnx_passes.check.claims import structure as structure
from onnx_passes.check.claims import tolerance as tolerance
from onnx_passes.verify.failure import VerificationError as VerificationError
