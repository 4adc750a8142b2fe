"""What quantizers become computes the same in onnx's reference evaluator, an engine that is not ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.ops.definition import Definition
from onnx_passes.ops.float_quant import FloatQuant
from onnx_passes.ops.quant import Quant
from onnx_passes.ops.rounding import MODES
from onnx_passes.ops.trunc import Trunc, TruncToBits
from onnx_passes.verify.run.execute import Executor
from tests.ops.tools import assert_same, one_node

X = np.array([0, -0.0, 0.3, -0.3, 2.5, -2.5, 3.5, 99, -99, np.nan, np.inf, -np.inf], np.float32)
PARAMETERS: list[tuple[type[Definition], tuple[float, ...]]] = [
    (Quant, (0.5, 0, 4)),
    (Quant, (-0.5, 3, 1)),
    (TruncToBits, (0.5, 1, 8, 6)),
    (Trunc, (0.5, 0, 8, 2, 4)),
    (FloatQuant, (0.1, 4, 3, 7, 448)),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("opset", [9, 18])
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(("definition", "parameters"), PARAMETERS)
def test_reference_agrees(definition: type[Definition], parameters: tuple[float, ...], opset: int, *, fed: bool):
    given = [np.asarray(number, np.float32) for number in parameters]
    feeds = {"x": X} | {f"c{number}": array for number, array in enumerate(given, start=1) if fed}
    for mode in MODES:
        model = one_node(definition, X, *given, opset=opset, fed=fed, rounding_mode=mode)
        found = Executor().prepare(model, engine="reference").run(feeds)["y"]
        operator = definition()
        assert_same(found, operator.compute([X, *given], operator.checked(model.graph[0])), mode)
