"""Weights of 16-bit floats are widened one by one, when they are due, not all before the first node runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.run.execute import Executor

LAYERS, WIDTH = 6, 24


def chain(dtype: ir.DataType) -> ir.Model:
    """Products of an input with weights, one after the other, each masked by a second input."""
    element = dtype.name.lower()
    layers = "".join(f"m{n} = MatMul(x{n}, w{n}) x{n + 1} = Add(m{n}, mask) " for n in range(LAYERS))
    model = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": 21]> g ({element}[2,{WIDTH}] x0, {element}[2,{WIDTH}] mask)'
        f" => ({element}[2,{WIDTH}] x{LAYERS}) {{ {layers} }}"
    )
    rng = np.random.default_rng(0)
    for node in list(model.graph):
        for index, value in enumerate(node.inputs):
            if value is not None and str(value.name).startswith("w"):
                weight = ir.val(str(value.name), dtype, [WIDTH, WIDTH])
                weight.const_value = ir.Tensor(rng.normal(0, 0.2, (WIDTH, WIDTH)).astype(dtype.numpy()), dtype)
                model.graph.register_initializer(weight)
                node.replace_input_with(index, weight)
    return model


def fed(dtype: ir.DataType) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=(2, WIDTH)).astype(dtype.numpy()) for name in ("x0", "mask")}


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT16, ir.DataType.BFLOAT16])
def test_no_weight_is_widened_before_it_is_due(dtype, tmp_path):
    prefix = str(tmp_path / "profile")
    packed, make = Executor().session_of(chain(dtype), enable_profiling=True, profile_file_prefix=prefix)
    session = make()
    session.run(None, dict(packed.boundary.inward(name, array) for name, array in fed(dtype).items()))
    events = json.loads(Path(session.end_profiling()).read_text())
    kernels = sorted(
        (event for event in events if event["name"].endswith("_kernel_time")), key=lambda event: event["ts"]
    )
    early = most = 0
    for event in kernels:
        if event["args"]["op_name"] == "Cast" and str(WIDTH * WIDTH * 4) == event["args"].get("output_size"):
            early += 1
        elif event["args"]["op_name"] == "MatMul":
            early -= 1
        most = max(most, early)
    assert early == 0
    assert most == 1


def test_weights_of_bfloat16_are_handed_over_as_they_are():
    model = chain(ir.DataType.BFLOAT16)
    executor = Executor()
    packed = executor.packed(model)
    assert set(packed.handed) == {f"w{n}" for n in range(LAYERS)}
    assert packed.key == executor.key(model)


def test_results_of_bfloat16_are_rounded_after_each_operation():
    dtype = ir.DataType.BFLOAT16
    model, feeds = chain(dtype), fed(dtype)
    found = Executor().prepare(model, engine="onnxruntime").run(feeds)[f"x{LAYERS}"]
    x = feeds["x0"]
    for number in range(LAYERS):
        weight = model.graph.initializers[f"w{number}"].const_value.numpy()
        product = (x.astype(np.float64) @ weight.astype(np.float64)).astype(np.float32).astype(dtype.numpy())
        x = (product.astype(np.float32) + feeds["mask"].astype(np.float32)).astype(dtype.numpy())
    np.testing.assert_allclose(found.astype(np.float32), x.astype(np.float32), atol=2**-6)
