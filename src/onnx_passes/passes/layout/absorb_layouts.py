"""Get rid of the transpositions that a change of layouts puts in."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.tolerance
@passes.register(tags=("layout",))
class AbsorbLayouts(ComposePass):
    """Sink transposes through the model until operators absorb them or they cancel.

    Rewrites: ``absorb-transpose-into-layout, absorb-transpose, absorb-transpose-into-gemm, move-transpose-down,
              move-transpose-down-rounding, move-transpose-past-matmul, eliminate-transpose``, as long as something
              changes.
    Refuses:  to go past operators that ONNX has in one layout only, as convolutions with windows.
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
