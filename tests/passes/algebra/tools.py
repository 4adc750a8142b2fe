"""Apply a pass of this room to ONNX text and compare: NaN equals NaN, the sign of zeros counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context, Pass
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.eliminate.tools import body, feeds_of, operators, refusals
from tests.passes.tools import Arrays, apply, check, model_of, run

__all__ = ["assert_same_numbers", "body", "check", "feeds_of", "operators", "refusals", "rewritten"]


def rewritten(pass_: Pass, text: str, *, opset: int = 18, feeds: Arrays | None = None) -> ir.Model:
    """Apply a pass, which must change something, and hold the results against those of the model before."""
    model = model_of(text, opset=opset)
    ShapeInference().run(model, Context())
    given = feeds_of(model) if feeds is None else dict(feeds)
    expected = run(model, given)
    assert apply(pass_, model), "nothing changed"
    check(model)
    assert_same_numbers(run(model, given), expected)
    return model


def assert_same_numbers(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Compare results bit by bit, except for the payload and sign of NaN."""
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(result, wanted)
        if result.dtype.kind == "f":
            numbers = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(wanted[numbers]))
