"""Networks: every value of a run is in its range and on its grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.graph.tensor_types import datatype_of
from tests.analysis.ranges.soundness import require_sound
from tests.helpers.small_models import files, named

NOT_EXECUTABLE = {"im2col_matmul", "quant_dynamic_bitwidth_input", "xnorpopcount_matmul"}
PATHS = files("zoo", "brevitas", "qcdq", "edge", every=3, keep=lambda path: path.stem not in NOT_EXECUTABLE)


def prepared(path: Path) -> ir.Model:
    model = onnx_passes.load(path)
    return onnx_passes.apply(model, "remove-initializers-from-inputs, shape-inference", verify=False).model


@pytest.mark.parametrize("path", PATHS, indirect=True)
def test_no_value_of_a_network_leaves_its_range_or_its_grid(path: Path) -> None:
    model = prepared(path)
    random = np.random.default_rng(0)
    shapes = {
        value.name or "": [dim if isinstance(dim, int) else 2 for dim in value.shape or ()]
        for value in model.graph.inputs
    }
    samples = [{name: random.choice([-1, 1], shape).astype(np.float32) for name, shape in shapes.items()}]
    if not any(datatype_of(value) for value in model.graph.inputs):
        samples.append({name: random.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()})
    checked = require_sound(model, dict.fromkeys(shapes, (-1.0, 1.0)), samples)
    assert checked["values"] > 0
    assert path.parent.name == "edge" or checked["bounded"] > 0.9 * checked["values"]


INTEGERS = (
    *("brevitas/small_cnv", "brevitas/small_residual", "brevitas/small_separable", "zoo/small_tfc_2w2a"),
    *("brevitas/mobilenet_v1_w025_4w4a", "brevitas/resnet18_w8_4w4a", "zoo/TFC_2W2A"),
)


@pytest.mark.parametrize("path", named(INTEGERS), indirect=True)
def test_all_accumulators_behind_a_quantizer_are_integers_of_few_bits(path: Path) -> None:
    model = prepared(path)
    found = ranges_of(model)
    layers = [node for node in model.graph if node.op_type in ("Conv", "Gemm", "MatMul")]
    grids = [found[node.outputs[0]].grid for node in layers]
    assert sum(grid is None for grid in grids) <= 1
    assert all(int(grid.high.max()) < 2**22 and int(grid.low.min()) > -(2**22) for grid in grids if grid is not None)
