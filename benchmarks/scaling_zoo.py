"""A zoo of models under one pipeline: are results equal, how much faster are two processes, and what a model costs.

    python benchmarks/scaling_zoo.py [--models N] [--repeat N] [--pipeline TEXT]

Small convolutional networks of random depth and width are written, each other than the rest, and `onnx-passes batch`
runs over them with one process and with two, in turns. For each: seconds of wall clock and of processors, of all
processes together; the least of several runs. Efficiency is the wall clock of one process over twice that of two; the
ratio of processor seconds bounds it where other programs keep the machine busy. Then what a model costs beside its own
work: passes that do nothing, and a run where everything is up to date. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

_SUBREAPER = 36
"""The number of PR_SET_CHILD_SUBREAPER: what processes leave behind becomes a child of this one, and is counted."""


class Spent(NamedTuple):
    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=240)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--pipeline", default="simplify")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "zoo").mkdir()
        for number in range(arguments.models):
            ir.save(network(number), folder / "zoo" / f"{number:04}.onnx")
        measured(folder, arguments.pipeline, arguments.models, arguments.repeat)


def network(seed: int) -> ir.Model:
    """Draw a network: blocks of a convolution, a normalization and an activation, some with a detour around them."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([4, 8, 12, 16]))
    value = x = ir.val("x", ir.DataType.FLOAT, [1, channels, 12, 12])
    nodes: list[ir.Node] = []
    weights: list[ir.Value] = []

    def add(operator: str, *inputs: ir.Value, **attributes: object) -> ir.Value:
        node = ir.node(operator, inputs, attributes or None, name=f"n{len(nodes)}")  # pyright: ignore[reportArgumentType]
        node.outputs[0].name = f"v{len(nodes)}"
        nodes.append(node)
        return node.outputs[0]

    def weight(array: np.ndarray) -> ir.Value:
        tensor = ir.tensor(array.astype(np.float32), name=f"w{len(weights)}")
        weights.append(
            ir.Value(name=tensor.name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
        )
        return weights[-1]

    for _ in range(rng.integers(3, 10)):
        before = value
        value = add("Conv", value, weight(rng.normal(0, 0.2, (channels, channels, 3, 3))), pads=[1, 1, 1, 1])
        statistics = [rng.uniform(0.5, 2, channels), rng.normal(0, 1, channels), rng.normal(0, 1, channels)]
        value = add("BatchNormalization", value, *map(weight, statistics), weight(rng.uniform(0.5, 2, channels)))
        value = add("Identity", add(str(rng.choice(["Relu", "Sigmoid", "Tanh"])), value))
        value = add("Mul", value, weight(np.ones(1)))
        if rng.random() < 0.5:
            value = add("Add", value, before)
    value = add("Flatten", value)
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([1, channels * 144])
    graph = ir.Graph([x], [value], nodes=nodes, initializers=weights, opset_imports={"": 18}, name=f"network{seed}")
    return ir.Model(graph, ir_version=9)


def measured(folder: Path, pipeline: str, models: int, repeat: int) -> None:
    print(f"{models} models, {pipeline}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    found: dict[int, list[Spent]] = {1: [], 2: []}
    for turn in range(repeat):
        for jobs in found:
            found[jobs].append(spent(folder, f"out{jobs}-{turn}", "-j", str(jobs), pipeline))
    one, two = (Spent(*map(min, zip(*found[jobs], strict=True))) for jobs in (1, 2))
    digests = [outputs(folder / f"out{jobs}-{turn}") for jobs in found for turn in range(repeat)]
    print("results equal to the last bit:", len(digests[0]) == models and all(other == digests[0] for other in digests))
    print("\n| processes | wall s | CPU s |\n| --- | --- | --- |")
    for jobs, (wall, cpu) in ((1, one), (2, two)):
        print(f"| {jobs} | {wall:.1f} | {cpu:.1f} |")
    print(f"\nefficiency at two: {one.wall / (2 * two.wall):.0%} by wall clock, CPU(2)/CPU(1) {two.cpu / one.cpu:.2f}")
    again = spent(folder, "out1-0", "-j", "1", pipeline)
    start = spent(folder, "start", "-j", "1", "checker", "--verify", "off", only="0000.onnx")
    nothing = spent(folder, "nothing", "-j", "1", "checker", "--verify", "off")
    work = sum(own(folder / "nothing"))
    print(f"a model: {1000 * (one.cpu - start.cpu) / models:.0f} ms CPU with {pipeline}")
    print(
        f"a model that only is read, checked and written: {1000 * (nothing.cpu - start.cpu) / models:.1f} ms CPU, ",
        end="",
    )
    print(f"{1000 * (nothing.cpu - start.cpu - work) / models:.1f} ms of it outside of its own work")
    print(f"start of the program and of one worker: {start.cpu:.1f} s CPU; all up to date: {again.cpu:.1f} s CPU")


def spent(folder: Path, output: str, *words: str, only: str = "") -> Spent:
    """Run a batch in a process of its own, and wait for all that it started."""
    command = [
        sys.executable,
        "-m",
        "onnx_passes",
        "batch",
        "-q",
        str(folder / "zoo" / only),
        "-o",
        str(folder / output),
    ]
    before, clock = _children(), time.perf_counter()
    subprocess.run([*command, *words], check=True)
    wall = time.perf_counter() - clock
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return Spent(wall, _children() - before)


def outputs(folder: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(folder / "manifest.sqlite") as connection:
        return connection.execute("SELECT model, output_digest FROM models ORDER BY model").fetchall()


def own(folder: Path) -> list[float]:
    with sqlite3.connect(folder / "manifest.sqlite") as connection:
        return [seconds for (seconds,) in connection.execute("SELECT cpu_seconds FROM models")]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
