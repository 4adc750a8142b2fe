"""Streamlined networks beside what they mean in exact arithmetic, on inputs that lie on the edges of levels.

    python benchmarks/exact.py [--networks 300] [--inputs 1000] [--seed 0]

Every network is streamlined and run by ONNX Runtime; the oracle evaluates the original in rational numbers
(`onnx_passes.ops.semantics.exact`). Printed: inputs whose results differ, of the streamlined network and of the
float original. Networks that streamlining itself says cannot be exact, as floats round before a quantizer, are counted
beside.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.numbers.surds import nearest
from onnx_passes.ops.semantics.exact import evaluate
from onnx_passes.testing.tied_networks import tied_inputs, tied_network
from onnx_passes.verify.run.execute import Executor

_ROUNDING = 2.0**-20
"""Results that are this close, in proportion to the greatest, differ by the rounding of the last scale."""


def differing(found: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """Tell which inputs of a batch have another result than is meant."""
    apart = np.abs(found.astype(np.float64) - meant) > _ROUNDING * np.abs(meant).max(initial=1e-30)
    return apart.reshape(len(found), -1).any(axis=1)


def run(model: ir.Model, batch: np.ndarray) -> np.ndarray:
    """Run a model in ONNX Runtime."""
    return next(iter(Executor().prepare(model, engine="onnxruntime").run({"x": batch}).values()))


def main() -> None:
    """Print a line for each network that differs, and the sum of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=300)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    wrong = wrong_floats = inexact = wrong_inexact = compared = networks = 0
    seconds = [0.0, 0.0]
    for number in itertools.count(asked.seed):
        if networks == asked.networks:
            break
        model = tied_network(number)
        batch = tied_inputs(model, number, asked.inputs)
        start = time.process_time()
        result = onnx_passes.apply(model, "streamline", verify=False)
        between = time.process_time()
        inferred = onnx_passes.apply(model, "shape-inference", verify=False).model
        meant = nearest(evaluate(inferred, {"x": batch})["y"])
        seconds = [seconds[0] + between - start, seconds[1] + time.process_time() - between]
        notes = [note for step in result.record.steps for note in step.notes if "not exact" in note]
        bad, floats = differing(run(result.model, batch), meant), differing(run(model, batch), meant)
        if notes:
            inexact, wrong_inexact = inexact + 1, wrong_inexact + int(bad.sum())
            continue
        networks += 1
        compared, wrong, wrong_floats = compared + len(batch), wrong + int(bad.sum()), wrong_floats + int(floats.sum())
        if bad.any():
            print(f"network {number}: {int(bad.sum())} of {len(bad)} differ", flush=True)
    print(f"{networks} networks, {compared} inputs: {wrong} differ from exact arithmetic when streamlined")
    print(f"the float originals differ on {wrong_floats}")
    print(f"{inexact} more networks are said not to be exact; these differ on {wrong_inexact}")
    print(f"CPU: {seconds[0]:.0f} s streamlining, {seconds[1]:.0f} s exact arithmetic")


if __name__ == "__main__":
    main()
