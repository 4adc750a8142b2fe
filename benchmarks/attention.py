"""Attention in exported transformers: how many operators we and our peers fuse, what is left, and how exact that is.

    python benchmarks/attention.py --peers PYTHON MODEL…

`attention_zoo.py` exports models. PYTHON is the interpreter of an environment with onnxsim ≥ 0.8 and onnxscript. Every
tool runs in a process of its own, on the same files, and may raise the opset to 23; `error` is the largest difference
to the original in ONNX Runtime on the same inputs, relative to the largest number in its outputs. A cell says
attentions/rotary embeddings, nodes, error; attentions of `com.microsoft` count as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

OPSET = 23
PEERS = ("onnxscript", "onnxscript-ort", "onnxsim")
ATTENTIONS = ("Attention", "GroupQueryAttention", "MultiHeadAttention")
SIZES = {"tokens": (2, 7), "mask": (2, 7), "pixels": (2, 3, 32, 32)}
PAST = 5


def ours(source: str, target: str) -> None:
    import onnx_passes

    onnx_passes.save(onnx_passes.apply(source, "modernize").model, target)


def onnxscript(source: str, target: str) -> None:
    import onnx_ir
    import onnxscript.optimizer
    import onnxscript.rewriter.onnx_fusions
    import onnxscript.version_converter

    model = onnx_ir.load(source)
    onnxscript.optimizer.optimize(model)
    onnxscript.version_converter.convert_version(model, OPSET)
    onnxscript.optimizer.optimize(model)
    onnxscript.rewriter.onnx_fusions.fuse(model)
    onnx_ir.save(model, target)


def onnxscript_ort(source: str, target: str) -> None:
    import onnx_ir
    import onnxscript.optimizer
    import onnxscript.rewriter.ort_fusions

    model = onnx_ir.load(source)
    onnxscript.optimizer.optimize(model)
    model, _ = onnxscript.rewriter.ort_fusions.optimize_for_ort(model)
    onnx_ir.save(model, target)


def onnxsim(source: str, target: str) -> None:
    import onnxsim as tool

    model, _ = tool.simplify(source, target_opset_version=OPSET, extra_optimizers=["fuse_attention", "fuse_gqa"])
    onnx.save(model, target)


TOOLS = {"ours": ours, "onnxscript": onnxscript, "onnxscript-ort": onnxscript_ort, "onnxsim": onnxsim}


def feeds_of(path: Path) -> dict[str, np.ndarray]:
    """Draw inputs that belong together: with a past, the mask is that much longer."""
    inputs = onnx.load(path, load_external_data=False).graph.input
    generator = np.random.default_rng(0)
    past = PAST if any(value.name.startswith("past") for value in inputs) else 0
    feeds: dict[str, np.ndarray] = {}
    for value in inputs:
        kind, dims = value.type.tensor_type, [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        shape = SIZES.get(value.name) or ((2, 9) if len(dims) == 2 else (2, dims[1], dims[2] or past, dims[-1]))
        shape = (2, 7 + past) if value.name == "mask" else (2, *dims[1:]) if len(dims) == 3 else shape
        if value.name == "mask":
            feeds[value.name] = np.ones(shape, np.int64)
            feeds[value.name][0, : 2 + past] = 0
        elif kind.elem_type == onnx.TensorProto.INT64:
            feeds[value.name] = generator.integers(3, 90, shape)
        else:
            feeds[value.name] = generator.standard_normal(shape).astype(np.float32)
    return feeds


def run(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    return session.run(None, {name: array for name, array in feeds.items() if name in names})


def cell(tool: str, python: str, model: Path, expected: list[np.ndarray], folder: Path) -> dict[str, object]:
    target = folder / f"{tool}.onnx"
    command = [python, __file__, "--one", tool, str(model), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["?"])[-1][:90]}
    counts = Counter(node.op_type for node in onnx.load(target).graph.node)
    try:
        found = run(target, feeds_of(model))
        error = max(
            float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-9))
            for a, b in zip(found, expected, strict=True)
        )
    except Exception as problem:  # noqa: BLE001
        error = f"does not run: {str(problem).splitlines()[0][:60]}"
    fused = sum(counts[name] for name in ATTENTIONS)
    return {"fused": fused, "rotary": counts["RotaryEmbedding"], "nodes": counts.total(), "error": error}


def text(found: dict[str, object]) -> str:
    if "failure" in found:
        return "fails"
    error = found["error"]
    shown = f"{error:.0e}" if isinstance(error, float) else "does not run"
    return f"{found['fused']}/{found['rotary']}, {found['nodes']}, {shown}"


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        TOOLS[sys.argv[2]](*sys.argv[3:5])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    columns = ("ours", *PEERS)
    print(f"| model | nodes | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    everything: dict[str, dict[str, dict[str, object]]] = {}
    for model in arguments.models:
        try:
            expected = run(model, feeds_of(model))
        except Exception as problem:  # noqa: BLE001
            print(f"| {model.stem} | does not run: {str(problem).splitlines()[0][:80]} |")
            continue
        with tempfile.TemporaryDirectory() as folder:
            cells = {
                tool: cell(tool, sys.executable if tool == "ours" else arguments.peers, model, expected, Path(folder))
                for tool in columns
            }
        count = len(onnx.load(model, load_external_data=False).graph.node)
        print(f"| {model.stem} | {count} | {' | '.join(text(cells[tool]) for tool in columns)} |", flush=True)
        everything[model.stem] = cells
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
