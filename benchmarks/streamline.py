"""Streamlining of quantized networks, in CPU time of one process, verification on.

    python benchmarks/streamline.py MODEL… [--finn FOLDER] [--inputs N]

For each model: nodes before and after, the part of the MACs behind the first quantizer that is integer, CPU seconds of
the run after start-up, and on N inputs (random, and on a grid of sixteenths, where ties are) how many results differ
from the original by more than 1e-5 of their range, and how many have their maximum elsewhere, and of these where the
original does not tell the two places apart by 1e-5 of its range (`ties`). With `--finn` the nodes
and CPU seconds that FINN's streamlining needed are read from `NAME.*.json` in the folder and printed beside.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.analysis.streamlined import streamlined
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.annotations import get
from onnx_passes.graph.load import load
from onnx_passes.verify.run.execute import Executor

_NAMES = {
    "kwsmlp_w3a3": "kws",
    "qkeras_jettagging": "jet",
    "unsw_nb15-mlp-w2a2": "unsw",
    "bnnpynq_cnv_1w1a": "cnv_1w1a",
    "bnnpynq_cnv_2w2a": "cnv_2w2a",
    "mobilenet_v1_w025_4w4a": "mnv1_w025",
    "resnet18_w8_4w4a": "rn18s",
}
"""What FINN's results are called."""


def feeds(model: ir.Model, number: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw one sample: normal, uniform, or on a grid; of what is declared bipolar, signs."""
    sample: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        if value.const_value is not None or value.shape is None:
            continue
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        drawn = generator.normal(size=shape)
        if get(value).get("finn_datatype") == "BIPOLAR":
            drawn = np.sign(drawn)
        elif number % 3 == 1:
            drawn = generator.random(shape)
        elif number % 3 == 2:
            drawn = np.round(drawn * 16) / 16
        sample[str(value.name)] = drawn.astype(np.float32)
    return sample


def compare(before: ir.Model, after: ir.Model, count: int) -> tuple[int, int, int, float]:
    """Run both; returns how many samples differ, have another maximum, by a tie, and the greatest difference."""
    executor, generator = Executor(), np.random.default_rng(1)
    old, new = executor.prepare(before), executor.prepare(after)
    differing = moved = ties = 0
    worst = 0.0
    for number in range(count):
        sample = feeds(before, number, generator)
        results = new.run(sample)
        for name, expected in old.run(sample).items():
            found = results[name]
            if expected.dtype.kind != "f":
                continue
            span = max(float(np.ptp(expected)), float(np.abs(expected).max()), 1e-30)
            error = float(np.abs(expected - found).max()) / span
            worst = max(worst, error)
            differing += error > 1e-5
            if expected.argmax() != found.argmax():
                moved += 1
                ties += float(expected.max() - expected.reshape(-1)[found.argmax()]) <= 1e-5 * span
    return differing, moved, ties, worst


def finn(folder: Path | None, name: str) -> tuple[str, str]:
    """Return nodes and CPU seconds of FINN, if known; of several flows those with the fewest nodes."""
    results: list[tuple[int, float]] = []
    for path in sorted(folder.glob(f"{_NAMES.get(name, name)}.*.json")) if folder else ():
        steps = [step for step in json.loads(path.read_text())["steps"] if "nodes" in step and "cpu" in step]
        if steps:
            results.append((min(step["nodes"] for step in steps[-2:]), sum(step["cpu"] for step in steps)))
    return (str(min(results)[0]), f"{min(results)[1]:.1f}") if results else ("", "")


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--finn", type=Path)
    parser.add_argument("--inputs", type=int, default=100)
    arguments = parser.parse_args()
    heading = ("nodes", "after", "FINN", "integer", "CPU s", "FINN s", "differ", "argmax", "ties", "error")
    print(f"{'model':38}" + "".join(f"{text:>9}" for text in heading))
    onnx_passes.apply(load(arguments.models[0]), "streamline")
    for path in arguments.models:
        model = load(path)
        nodes = len(model.graph)
        start = time.process_time()
        try:
            result = onnx_passes.apply(model, "streamline")
        except OnnxPassesError as error:
            print(f"{path.stem[:37]:38} fails: {str(error).splitlines()[-1][:100]}")
            continue
        seconds = time.process_time() - start
        theirs, their_seconds = finn(arguments.finn, path.stem)
        differing, moved, ties, worst = compare(load(path), result.model, arguments.inputs)
        part = streamlined(result.model).fraction
        print(
            f"{path.stem[:37]:38}{nodes:9}{len(result.model.graph):9}{theirs:>9}{part:9.0%}{seconds:9.2f}"
            f"{their_seconds:>9}{differing:9}{moved:9}{ties:9}{worst:9.1g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
