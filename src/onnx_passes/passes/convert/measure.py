"""The largest magnitudes of the values of a model, measured by running it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.fitting import run_samples


def greatest_values(model: ir.Model, data: str = "") -> dict[ir.Value, np.ndarray]:
    """Return the largest finite magnitude of each floating-point value, on data from a file or generated.

    Raises ExecutionError if the model cannot be run.
    """
    executor = Executor()
    # The default samples are those of the verification, so that their overflows are known beforehand.
    samples, _ = run_samples(executor.prepare(model), model, [data] if data else [], 0)
    known = Activations(executor)
    known.fill(model, samples)
    found: dict[ir.Value, np.ndarray] = {}
    for value in (*model.graph.inputs, *(value for node in model.graph for value in node.outputs)):
        arrays = [array for array in known.get(value) or () if array.dtype.kind == "f"]
        finite = [np.abs(array[np.isfinite(array)]).max(initial=0.0) for array in arrays]
        if finite:
            found[value] = np.array([max(finite)], np.float64)
    return found
