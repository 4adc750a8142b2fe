"""Models of one quantizer each, with the results of QONNX beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_passes.graph.load import load
from onnx_passes.verify.run.execute import Executor
from tests.helpers.outside import outside
from tests.helpers.small_models import files
from tests.ops.tools import assert_same

QUANTIZERS = ("bipolarquant_", "floatquant_", "intquant_", "quant_", "trunc_")


def is_quantizer(path: Path) -> bool:
    return path.stem.startswith(QUANTIZERS) and path.with_suffix(".npz").is_file()


@pytest.mark.parametrize("path", files("edge", keep=is_quantizer), indirect=True)
def test_results_are_those_of_qonnx(path: Path):
    data = np.load(path.with_suffix(".npz"))
    program = Executor().prepare(load(path), engine="onnxruntime")
    size = len(data["in_b1__x"])
    for batch in ("b1", "b8") if "in_b8__x" in data.files else ("b1",):
        feeds = {key.split("__", 1)[1]: data[key] for key in data.files if key.startswith(f"in_{batch}__")}
        for start in range(0, len(feeds["x"]), size):
            found = program.run({**feeds, "x": feeds["x"][start : start + size]})
            assert_same(found["y"], data[f"out_{batch}__y"][start : start + size], f"{batch}, row {start}")


@pytest.mark.models
@pytest.mark.parametrize("name", ["quant_perchannel_scale_zp_bits", "quant_round_round_to_zero"])
def test_runs_what_qonnx_cannot(name: str):
    model = load(outside(f"edge/{name}"))
    shape = [dim if isinstance(dim, int) else 2 for dim in model.graph.inputs[0].shape or ()]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = Executor().prepare(model, engine="onnxruntime").run({model.graph.inputs[0].name or "": x})
    assert all(np.isfinite(array).all() and array.shape == x.shape for array in found.values())
