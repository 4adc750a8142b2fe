"""Models of thresholds, bit products and patches, with the results of QONNX beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_passes.graph.load import load
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.verify.run.execute import Executor
from tests.helpers.outside import outside
from tests.helpers.small_models import files
from tests.ops.tools import assert_same

OPERATORS = ("multithreshold_", "xnorpopcount_")


def is_window(path: Path) -> bool:
    return path.stem.startswith(OPERATORS) and path.with_suffix(".npz").is_file()


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("path", files("edge", keep=is_window), indirect=True)
def test_results_are_those_of_qonnx(path: Path, fast: bool):
    data = np.load(path.with_suffix(".npz"))
    model = load(path)
    if not fast:
        expand_nodes(model)
    program = Executor().prepare(model, engine="onnxruntime")
    size = len(data["in_b1__x"])
    for batch in ("b1", "b8"):
        if f"in_{batch}__x" in data.files:
            x = data[f"in_{batch}__x"]
            for start in range(0, len(x) - size + 1, size):
                found = program.run({"x": x[start : start + size]})
                assert_same(found["y"], data[f"out_{batch}__y"][start : start + size], f"{batch}, row {start}")


@pytest.mark.models
def test_runs_patches_before_a_product():
    model = load(outside("edge/im2col_matmul"))
    weights = next(iter(model.graph.initializers.values())).const_value
    assert weights is not None
    x = np.random.default_rng(0).integers(-8, 8, (1, 6, 6, 4)).astype(np.float32)
    found = Executor().prepare(model, engine="onnxruntime").run({"x": x})
    patches = model.graph[0].attributes
    kernel, stride, pads = (patches[name].as_ints() for name in ("kernel_size", "stride", "pad_amount"))
    padded = np.pad(x, [(0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(1, 2))[:, :: stride[0], :: stride[1]]
    rows = np.moveaxis(windows, 3, -1).reshape(*windows.shape[:3], -1)
    np.testing.assert_array_equal(next(iter(found.values())), rows @ weights.numpy())
