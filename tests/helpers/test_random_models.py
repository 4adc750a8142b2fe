from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from tests.helpers.random_models import random_inputs, random_model, shuffle_names_and_order


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


@pytest.mark.parametrize("seed", range(12))
def test_models_are_valid_and_run_the_same_after_shuffling(seed: int):
    model = random_model(seed, nodes=25, dead=seed % 2 == 0)
    shuffled = shuffle_names_and_order(model, seed)
    for each in (model, shuffled):
        onnx.checker.check_model(ir.to_proto(each), full_check=True)
    inputs = random_inputs(model)
    for expected, actual in zip(run(model, inputs), run(shuffled, inputs), strict=True):
        np.testing.assert_array_equal(expected, actual)
        assert np.isfinite(expected).all()
    assert not {node.name for node in model.graph} & {node.name for node in shuffled.graph}


def test_the_same_seed_gives_the_same_model():
    first, second, other = (ir.to_proto(random_model(seed)) for seed in (7, 7, 8))
    assert first == second
    assert first != other
