"""What a pass promises: decorators, and the error that says a promise was broken."""

from onnx_passes.verify.claims import equality as equality
from onnx_passes.verify.claims import metric as metric
from onnx_passes.verify.claims import structure as structure
from onnx_passes.verify.claims import tolerance as tolerance
from onnx_passes.verify.failure import VerificationError as VerificationError
