"""Execution of quantized models: ONNX Runtime through onnx-passes beside qonnx's own executor, in CPU time.

    python benchmarks/execution.py --peers PYTHON MODEL…

PYTHON is an interpreter in whose environment `qonnx` is installed. Both sides run the same sample; `first` includes
making the session, `run` is a later run. The last column says how many times `run` is faster than qonnx, and the one
before it how far the results are apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import onnx_passes
from onnx_passes.graph.load import load
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.generate import generate

_PEER = """
import json, sys, time
import numpy as np, onnx
make = onnx.helper.make_model
def clamped(*args, **kwargs):
    model = make(*args, **kwargs)
    model.ir_version = min(model.ir_version, 8)
    return model
onnx.helper.make_model = clamped
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
model = ModelWrapper(sys.argv[1])
feeds = dict(np.load(sys.argv[2]))
execute_onnx(model, feeds)
start = time.process_time()
results = execute_onnx(model, feeds)
print(json.dumps({"seconds": time.process_time() - start, "results": {k: v.tolist() for k, v in results.items()}}))
"""


def peer(python: str, path: Path, sample: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]] | str:
    """Run a model by qonnx in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        ready = onnx_passes.apply(path, "remove-initializers-from-inputs, export-qonnx", verify=False).model
        exported, feeds = Path(folder) / "model.onnx", Path(folder) / "feeds.npz"
        onnx_passes.save(ready, exported)
        np.savez(feeds, **sample)
        done = subprocess.run(
            [python, "-c", _PEER, str(exported), str(feeds)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    found = json.loads(done.stdout.splitlines()[-1])
    return found["seconds"], {name: np.array(array, np.float32) for name, array in found["results"].items()}


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", required=True)
    parser.add_argument("models", nargs="+", type=Path)
    arguments = parser.parse_args()
    print(f"{'model':40}" + "".join(f"{text:>12}" for text in ("first ms", "run ms", "qonnx ms", "apart", "faster")))
    for path in arguments.models:
        model = load(path)
        sample = generate(model, samples=1)[0]
        names = {str(value.name) for value in model.graph.inputs if value.const_value is None}
        sample = {name: array for name, array in sample.items() if name in names}
        start = time.process_time()
        ready = Executor().prepare(model, feeds=names)
        results = ready.run(sample)
        first = time.process_time() - start
        start = time.process_time()
        for _ in range(5):
            ready.run(sample)
        run = (time.process_time() - start) / 5
        other = peer(arguments.peers, path, sample)
        if isinstance(other, str):
            print(f"{path.stem[:39]:40}{first * 1000:12.1f}{run * 1000:12.2f} qonnx fails: {other[:60]}", flush=True)
            continue
        seconds, theirs = other
        apart = max(float(np.abs(results[name] - theirs[name].reshape(results[name].shape)).max()) for name in results)
        figures = f"{first * 1000:12.1f}{run * 1000:12.2f}{seconds * 1000:12.1f}{apart:12.1g}{seconds / run:11.0f}x"
        print(f"{path.stem[:39]:40}{figures}", flush=True)


if __name__ == "__main__":
    main()
