"""Cost of verification: a run with it beside one without, less the two inferences that any check needs.

    python benchmarks/verification.py MODEL… [--pipeline TEXT]

Figures are CPU seconds; `overhead` is (verified - 2 inferences) / unverified. Models that cannot be run are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import onnx_passes
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.execute import Executor
from onnx_passes.verify.generate import generate
from onnx_passes.verify.verification import Verification


def cpu(work: Callable[[], object], repeat: int = 3) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(path: Path, pipeline: str) -> None:
    model = onnx_passes.load(path)
    samples = generate(model)
    try:
        ready = Executor().prepare(model)
        inference = cpu(lambda: [ready.run(sample) for sample in samples])
    except OnnxPassesError:
        return
    plain = cpu(lambda: onnx_passes.apply(model, pipeline, verify=False))
    checked = cpu(lambda: onnx_passes.apply(model, pipeline, verify=Verification()))
    changes = sum(1 for step in onnx_passes.apply(model, pipeline, verify=False).record.leaves() if step.modified)
    overhead = (checked - 2 * inference) / plain
    print(f"{path.name:36} {inference:9.4f} {plain:9.4f} {checked:9.4f} {changes:8} {overhead:9.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--pipeline", default="shape-inference, cleanup")
    arguments = parser.parse_args()
    print(f"{'model':36} {'inference':>9} {'plain':>9} {'verified':>9} {'changes':>8} {'overhead':>10}")
    for path in arguments.models:
        measure(path, arguments.pipeline)


if __name__ == "__main__":
    main()
