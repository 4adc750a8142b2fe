"""Remove the transpositions that a change of layouts inserts."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.tolerance
@passes.register(tags=("layout",))
class AbsorbLayouts(ComposePass):
    """Sink transposes through the model until operators absorb them or they cancel.

    Rewrites: ``absorb-transpose-into-layout, absorb-transpose, absorb-transpose-into-gemm, move-transpose-down,
              move-transpose-down-rounding, move-transpose-past-matmul, eliminate-transpose``, until nothing changes.
    Refuses:  to move past operators that ONNX has in one layout only, such as convolutions with windows.
    Exactness: up to rounding.
    """

    passes = (
        "absorb-transpose-into-layout",
        "absorb-transpose",
        "absorb-transpose-into-gemm",
        "move-transpose-down",
        "move-transpose-down-rounding",
        "move-transpose-past-matmul",
        "move-transpose-past-quantizer",
        "eliminate-transpose",
    )
    exhaustive = True
