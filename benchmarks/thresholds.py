"""Cost of MultiThreshold beside compare-and-reduce and QONNX's formula, on one tensor of 64 x 64 x 32 x 32 floats.

    python benchmarks/thresholds.py [--quick]

All run in this process on equal data; figures are CPU milliseconds of one thread, ratios are what counts. Compare-and-
reduce makes a tensor that is larger by the number of thresholds: from 64 on it runs on a part of the data, scaled up.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.verify.run.execute import Executable, Executor

SHAPE = (64, 64, 32, 32)
MANY = 64
PART = 16
"""Of how many parts of the data the baselines see one, where there are many thresholds."""
Run = Callable[[np.ndarray], np.ndarray]


def thresholds(kind: str, channels: int, amount: int) -> np.ndarray:
    random = np.random.default_rng(1)
    if kind == "whole":
        return np.sort(random.integers(-1000, 1000, (channels, amount)), axis=1).astype(np.float32)
    if kind == "even":
        steps = np.linspace(-6, 6, amount) * random.uniform(0.8, 1.2, (channels, 1))
        return (steps + random.uniform(-0.1, 0.1, (channels, 1))).astype(np.float32)
    return np.sort(random.standard_normal((channels, amount)) * 3, axis=1).astype(np.float32)


def data(kind: str) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    return np.rint(x * 400) if kind == "whole" else x * 3


def executable(graph: ir.Graph) -> Executable:
    return Executor().prepare(ir.Model(graph, ir_version=8), engine="onnxruntime")


def source() -> ir.Value:
    return ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["n", *SHAPE[1:]]))


def naive(steps: np.ndarray) -> Run:
    op, x = Builder({"": 18}, initializers_allowed=False), source()
    reached = op.GreaterOrEqual(op.Unsqueeze(x, np.array([-1])), steps.reshape(len(steps), 1, 1, -1))
    y = op.ReduceSum(op.Cast(reached, to=ir.DataType.FLOAT), np.array([-1]), keepdims=0)
    for number, value in enumerate(output for node in op.nodes for output in node.outputs):
        value.name = f"v{number}"
    run = executable(ir.Graph([x], [y], nodes=op.nodes, opset_imports={"": 18}, name="naive"))
    return lambda array: next(iter(run.run({"x": array}).values()))


def ours(steps: np.ndarray, *, fast: bool) -> Run:
    x = source()
    node = ir.node(
        "MultiThreshold", [x, None], {"out_dtype": "UINT8", "data_layout": "NCHW"}, domain="qonnx.custom_op.general"
    )
    held = ir.Value(name="t", const_value=ir.Tensor(steps), type=ir.TensorType(ir.DataType.FLOAT))
    node.replace_input_with(1, held)
    y = node.outputs[0]
    y.name, y.type = "y", ir.TensorType(ir.DataType.FLOAT)
    imports = {"": 18, node.domain: 1}
    model = ir.Model(
        ir.Graph([x], [y], nodes=[node], initializers=[held], opset_imports=imports, name="ours"), ir_version=8
    )
    if not fast:
        expand_nodes(model)
    run = Executor().prepare(model, engine="onnxruntime")
    return lambda array: run.run({"x": array})["y"]


def formula(steps: np.ndarray) -> Run:
    def run(x: np.ndarray) -> np.ndarray:
        moved = np.expand_dims(np.moveaxis(x, 1, -1), -1)
        return np.moveaxis(np.count_nonzero(moved >= steps, axis=-1).astype(x.dtype), -1, 1)

    return run


def milliseconds(run: Run, x: np.ndarray, repeat: int) -> float:
    run(x)
    found: list[float] = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        run(x)
        found.append(time.process_time() - start)
    return min(found) * 1000


def row(kind: str, channels: int, amount: int, repeat: int) -> None:
    steps, x = thresholds(kind, channels, amount), data(kind)
    start = time.process_time()
    fast = ours(steps, fast=True)
    build = (time.process_time() - start) * 1000
    portable = ours(steps, fast=False)
    part, factor = (x[::PART], PART) if amount >= MANY else (x, 1)
    expected = naive(steps)(part)
    np.testing.assert_array_equal(fast(part), expected)
    np.testing.assert_array_equal(portable(part), expected)
    baseline = milliseconds(naive(steps), part, 1) * factor
    reference = milliseconds(formula(steps), part, 1) * factor
    quick, plain = milliseconds(fast, x, repeat), milliseconds(portable, x, repeat)
    print(
        f"{kind:8} {channels:8} {amount:10} {quick:8.0f} {plain:9.0f} {baseline:15.0f} {reference:8.0f}"
        f" {baseline / quick:8.1f}x {reference / quick:8.1f}x {build:9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the two rows that have a target")
    quick = parser.parse_args().quick
    print(
        f"{'kind':8} {'channels':>8} {'thresholds':>10} {'fast':>8} {'portable':>9} {'compare+reduce':>15}"
        f" {'formula':>8} {'speed-up':>9} {'formula':>9} {'build ms':>9}"
    )
    for kind in ("even",) if quick else ("even", "whole", "random"):
        for channels in (64,) if quick else (64, 1):
            for amount in (15, 255) if quick else (3, 15, 63, 255):
                row(kind, channels, amount, 2)


if __name__ == "__main__":
    main()
