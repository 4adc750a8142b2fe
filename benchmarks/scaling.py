"""Cost of simplify by the size of the graph: milliseconds a node, and how that grows.

    python benchmarks/scaling.py [SIZE…]

Chains and blocks of one kind are repeated; every run has a process of its own, and CPU time is of the call alone: the
median of several runs for small graphs, on which one run says little.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnx_ir as ir

import onnx_passes

SIZES = (1000, 10_000, 100_000)
_WIDTH = 4
_RUNS = 7


class Growing:
    """A model under construction: every node reads what the last one computed."""

    def __init__(self, *shape: int | str) -> None:
        self.input = ir.val("x", ir.DataType.FLOAT, shape)
        self.value = self.input
        self.nodes: list[ir.Node] = []
        self.weights: list[ir.Value] = []

    def add(self, operator: str, *inputs: ir.Value, **attributes: object) -> ir.Value:
        node = ir.node(operator, inputs, attributes or None, name=f"n{len(self.nodes)}")  # pyright: ignore[reportArgumentType]
        node.outputs[0].name = f"v{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]

    def weight(self, array: np.ndarray) -> ir.Value:
        name = f"w{len(self.weights)}"
        value = ir.Value(
            name=name, type=ir.TensorType(ir.DataType.from_numpy(array.dtype)), shape=ir.Shape(array.shape)
        )
        value.const_value = ir.Tensor(array, name=name)
        self.weights.append(value)
        return value

    def model(self) -> ir.Model:
        self.value.type, self.value.shape = self.input.type, self.input.shape
        graph = ir.Graph(
            [self.input],
            [self.value],
            nodes=self.nodes,
            initializers=self.weights,
            opset_imports={"": 20},
            name="grown",
        )
        return ir.Model(graph, ir_version=10)


def untouched(size: int) -> ir.Model:
    """A chain in which nothing can be simplified."""
    grown = Growing(1, _WIDTH)
    while len(grown.nodes) < size:
        for operator in ("Sin", "Tanh", "Softplus", "Sigmoid", "Erf"):
            grown.value = grown.add(operator, grown.value)
    return grown.model()


def rewritten(size: int) -> ir.Model:
    """Blocks of which some nodes go: double negation, doing nothing, constants to fold, the same twice."""
    grown = Growing(1, _WIDTH)
    number = 0
    while len(grown.nodes) < size:
        number += 1
        x = grown.add("Neg", grown.add("Neg", grown.value))
        summed = grown.add(
            "Add", grown.weight(np.full(_WIDTH, number, np.float32)), grown.weight(np.ones(_WIDTH, np.float32))
        )
        x = grown.add("Identity", grown.add("Div", x, summed))
        grown.value = grown.add("Add", grown.add("Tanh", x), grown.add("Sin", grown.add("Tanh", x)))
    return grown.model()


def layers(size: int) -> ir.Model:
    """Layers of a network with a dynamic batch: product, bias, activation, reshaping by a computed shape, a branch."""
    grown = Growing("N", _WIDTH)
    random = np.random.default_rng(0)
    last = grown.weight(np.array([-1], np.int64))
    while len(grown.nodes) < size:
        product = grown.add(
            "MatMul", grown.value, grown.weight(random.normal(size=(_WIDTH, _WIDTH)).astype(np.float32))
        )
        biased = grown.add("Add", product, grown.weight(random.normal(size=_WIDTH).astype(np.float32)))
        x = grown.add("Tanh", grown.add("Relu", biased))
        first = grown.add("Slice", grown.add("Shape", x), grown.weight(np.array([0])), grown.weight(np.array([1])))
        shaped = grown.add("Reshape", x, grown.add("Concat", first, last, axis=0))
        grown.value = grown.add("Add", shaped, grown.value)
    return grown.model()


KINDS: dict[str, Callable[[int], ir.Model]] = {f.__name__: f for f in (untouched, rewritten, layers)}


def measure(kind: str, size: int, *, verify: bool) -> None:
    """Print seconds and nodes as JSON."""
    onnx_passes.apply(KINDS[kind](10), "simplify", verify=verify)
    model = KINDS[kind](size)
    started = time.process_time()
    result = onnx_passes.apply(model, "simplify", verify=verify)
    cpu = time.process_time() - started
    nodes = sum(1 for _ in result.model.graph)
    print(json.dumps({"cpu": cpu, "before": sum(1 for _ in model.graph), "nodes": nodes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--one", nargs=3, metavar=("KIND", "SIZE", "VERIFY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, size, verify = arguments.one
        measure(kind, int(size), verify=verify == "verified")
        return
    print(f"{'graph':12} {'':12} {'nodes':>8} {'left':>8} {'CPU s':>9} {'ms/node':>9} {'growth':>8}")
    for kind in arguments.kinds:
        for how in ("unverified", "verified"):
            first: float | None = None
            for size in arguments.sizes:
                try:
                    runs = [run(kind, size, how) for _ in range(max(1, min(_RUNS, 100_000 // size)))]
                except RuntimeError as error:
                    print(f"{kind:12} {how:12} {size:8} fails: {error}")
                    continue
                before, left, cpu = runs[0]["before"], runs[0]["nodes"], median(run["cpu"] for run in runs)
                each = 1000 * cpu / before
                first = first or each
                print(f"{kind:12} {how:12} {before:8} {left:8} {cpu:9.2f} {each:9.3f} {each / first:7.2f}x", flush=True)


def run(kind: str, size: int, how: str) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--one", kind, str(size), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["?"])[-1][:80])
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
