"""What results are held to: equality with those before, or a tolerance against those of the original model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.verify.compare import Comparison, Status, TensorComparison

EXPLICIT = "verify"
"""The pass that asks for a check where it stands, whether or not anything changed."""


@dataclass(frozen=True)
class Limits:
    """How far results may be from those of the original model where a pass promises no equality."""

    atol: float = 1e-5
    rtol: float = 1e-4


@dataclass(frozen=True)
class Promise:
    """What one step, or several together, promise about results: the weakest of their claims."""

    claim: Claim
    limits: Limits | None

    @property
    def is_equality(self) -> bool:
        """Tell whether results must stay as they were."""
        return self.claim.kind == "equality"

    def holds(self, comparison: Comparison) -> bool:
        """Tell whether results are as promised; a metric promises no more than the interface."""
        if comparison.equal:
            return True
        if self.claim.kind == "metric":
            return all(tensor.status in (Status.EQUAL, Status.VALUES) for tensor in comparison.tensors)
        return self.limits is not None and comparison.within(self.limits.atol, self.limits.rtol)

    def holds_inside(self, comparison: Comparison) -> bool:
        """Tell whether values inside a model are as promised: a tolerance is meant for the size of the whole tensor."""
        if self.limits is None or self.is_equality or self.claim.kind == "metric" or comparison.equal:
            return self.holds(comparison)
        for tensor in comparison.tensors:
            size = 1.0 if tensor.arrays is None else _size(tensor.arrays[0])
            if not tensor.within(self.limits.atol * size, self.limits.rtol):
                return False
        return True

    def broken(self, comparison: Comparison) -> TensorComparison | None:
        """Return the first tensor that is not as promised."""
        return next((t for t in comparison.tensors if not self.holds(Comparison((t,)))), None)


def _size(array: np.ndarray) -> float:
    """Return the greatest finite number of a tensor in size, and 1 at least."""
    if array.dtype.kind != "f":
        return 1.0
    sizes = np.abs(array)
    return float(sizes[np.isfinite(sizes)].max(initial=1.0))


def promise_of(passes: Iterable[Pass], limits: Limits) -> Promise:
    """Choose what passes are held to together; equality leaves out signs of zeros where the flag ``nsz`` says so."""
    passes = list(passes)
    claims = [claim_of(pass_) for pass_ in passes]
    for kind in ("metric", "tolerance"):
        weak = [claim for claim in claims if claim.kind == kind]
        if weak:
            given = [_limits(claim, limits) for claim in weak]
            widest = Limits(max(limit.atol for limit in given), max(limit.rtol for limit in given))
            return Promise(weak[0], widest)
    unsigned = any("nsz" in pass_.fast_math for pass_ in passes)
    return Promise(Claim("equality"), Limits(0, 0) if unsigned else None)


def claim_of(pass_: Pass) -> Claim:
    """Choose what is checked: what the pass promises, else what its kind implies."""
    if pass_.name == EXPLICIT:
        return Claim("tolerance")
    for claim in pass_.claims:
        if claim.kind != "structure":
            return claim
    return Claim("equality") if pass_.kind in ("analysis", "annotation") else Claim("tolerance")


def _limits(claim: Claim, limits: Limits) -> Limits:
    if claim.kind != "tolerance":
        return limits
    given = {key: float(str(value)) for key, value in claim.parameters.items() if key in ("atol", "rtol")}
    return Limits(given.get("atol", limits.atol), given.get("rtol", limits.rtol))
