"""Which integers an operator accepts as inputs, and which it decides by."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.ops.facts.inputs import values_beside
from onnx_passes.verify.run.execute import Executor

_COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def _comparison(operator: str, *, constant_first: bool) -> ir.Model:
    operands = "c, x" if constant_first else "x, c"
    return ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["": 17]> g (int64 x) => (bool y) '
        f"<int64 c = {{7}}> {{ y = {operator}({operands}) }}"
    )


@pytest.mark.parametrize("constant_first", [False, True])
@pytest.mark.parametrize("operator", _COMPARISONS)
def test_values_beside_a_constant_are_those_where_a_comparison_changes(operator: str, constant_first: bool):
    model = _comparison(operator, constant_first=constant_first)
    executable = Executor().prepare(model)

    def holds(x: int) -> bool:
        return bool(executable.run({"x": np.array(x, np.int64)})["y"])

    around = range(4, 11)
    changes = {x for x in around if holds(x) != holds(x - 1) or holds(x) != holds(x + 1)}
    found = set(values_beside(model.graph[0], 1 if constant_first else 0))
    assert found <= changes
    assert 7 in found
    if operator != "Equal":
        assert found == changes
