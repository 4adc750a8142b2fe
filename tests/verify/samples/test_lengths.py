"""Integers that are lengths of signals are as long as the signals, so that what counts is more than padding."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.samples.generate import generate

COUNTED = """
    size = Shape <start = 1, end = 2> (x) axis = Constant <value_ints = [0]> () n = Squeeze (size, axis)
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> () at = Range (zero, n, one)"""
WRITTEN = f"at = Constant <value_ints = [{', '.join(map(str, range(90)))}]> ()"
OTHER = f"at = Constant <value_ints = [{', '.join(['5'] * 90)}]> ()"


def masked(
    positions: str, lengths: str = "Unsqueeze(lens, last)", compared: str = "mask = Less(at, until)"
) -> ir.Model:
    return ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": 20]>
        g (float[8, 90] x, int64[8] lens) => (float[8, 90] y) {{ {positions}
            last = Constant <value_ints = [-1]> () until = {lengths} {compared}
            none = Constant <value_float = 0.0> () kept = Where(mask, x, none) y = Relu(kept)
        }}""")


@pytest.mark.parametrize(
    "model",
    [
        masked(COUNTED),
        masked(WRITTEN),
        masked(COUNTED, compared="mask = GreaterOrEqual(until, at)"),
    ],
)
def test_lengths_come_to_the_size_of_the_input(model: ir.Model) -> None:
    first = generate(model)[0]["lens"]
    assert (first.min(), first.max()) == (0, 90)


def test_what_is_compared_with_no_positions_is_no_length() -> None:
    assert generate(masked(OTHER))[0]["lens"].max() == 3


class ScalesTheEnd(Transformation, RewriteRulePass):
    """Scale what is behind position 70: wrong on purpose."""

    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        scale = op.Constant(value=ir.tensor([1.0] * 70 + [1.5] * 20, dtype=ir.DataType.FLOAT))
        return op.Mul(op.Max(x, op.Constant(value_float=0.0)), scale)


def test_a_fault_behind_the_first_positions_shows() -> None:
    with pytest.raises(PostconditionError, match="ScalesTheEnd"):
        apply(masked(COUNTED), ScalesTheEnd())
