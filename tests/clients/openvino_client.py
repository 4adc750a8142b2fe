"""OpenVINO and stock ONNX Runtime as clients: they load what is exported, and compute the same.

Run by ``make clients``. Each network is exported in three ways; each file is run by ONNX Runtime, without and with its
optimizations, and by OpenVINO in single precision. What is wrong there for reasons of the engine is listed in
``THEIRS``, with the reason; anything else fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import openvino
from networks import Network, networks

import onnx_passes
from onnx_passes.core.errors import OnnxPassesError

PIPELINES = {
    "integer": "streamline, export-integer{target=openvino}",
    "simplify": "simplify, inline-qonnx",
    "qcdq": "convert-to-qcdq{target=openvino}",
}
TOLERANCE = 1e-5
"""Of the greatest output."""
_FLIPS = 0.5
"""So much of the greatest output do levels that flip make; what is further off, or does not run, has no such excuse."""
_STRIPPED = "OpenVINO leaves out QuantizeLinear of 16 bits, and with it the bounds"
_CONTRIBUTED = "OpenVINO does not know all operators of com.microsoft, and computes LSTMs of integers otherwise"
_FLUSHED = "OpenVINO takes the smallest number, in 'greater than zero', for zero"
_TIES = "a level flips at a tie: the engine multiplies by the inverse of a scale"
THEIRS = {
    ("integer", "openvino", "edge/quant_round_ceil"): _FLUSHED,
    **{
        (kind, "openvino", name): reason
        for kind in ("simplify", "qcdq")
        for name, reason in {
            "ort-quantized/cnn_fashion__qdq_u16s8": _STRIPPED,
            "ort-quantized/cnn_fashion__qop_u8u8": _CONTRIBUTED,
            "ort-quantized/lstm_bi2__dynamic_int8": _CONTRIBUTED,
            "qcdq/dwsep_cnn_w4a4_fashion__qcdq": _TIES,
        }.items()
    },
}
FLIPPED = ("brevitas/zeropoint_asym_w8a8", "qcdq/dwsep_cnn_w4a4_fashion__qcdq")
"""Networks in which streamline moves a value that lies on the edge of two levels: all engines then say the same."""
REFUSED = {"ort-quantized/lstm_bi2__dynamic_int8": "no standard operators"}
"""Networks that have no integer form, and what is said of them."""


def in_onnxruntime(level: onnxruntime.GraphOptimizationLevel) -> Callable[[Path, Network], np.ndarray]:
    """Run in ONNX Runtime at a level of optimization."""

    def run(path: Path, network: Network) -> np.ndarray:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(path, options).run(None, network.inputs)[0]

    return run


def in_openvino(path: Path, network: Network) -> np.ndarray:
    """Run on the processor in single precision: the default differs by processor."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return next(iter(compiled(network.inputs).values()))


ENGINES = {
    "plain": in_onnxruntime(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL),
    "optimized": in_onnxruntime(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL),
    "openvino": in_openvino,
}


def check(network: Network, kind: str, folder: Path) -> tuple[list[str], bool]:
    """Export a network, and run the file; returns what the engines say, and whether nothing is wrong."""
    path = folder / f"{kind}.onnx"
    onnx_passes.apply(str(network.path), PIPELINES[kind]).save(path)
    size = max(float(np.abs(network.expected).max()), 1e-30)
    found, is_well = list[str](), True
    for engine, run in ENGINES.items():
        excuse = "theirs" if (kind, engine, network.name) in THEIRS else None
        try:
            error = float(np.abs(run(path, network).astype(np.float64) - network.expected).max()) / size
            is_right, text = error <= TOLERANCE, f"{error:.0e}"
            if error <= _FLIPS:
                excuse = excuse or _known(kind, engine, network.name, operators(path))
        except Exception as reason:  # noqa: BLE001 - whatever a client says is a finding
            is_right, text = False, f"failed: {str(reason).strip().splitlines()[-1][:80]}"
        is_well &= is_right or excuse is not None
        found.append(text if is_right or excuse is None else f"{text} ({excuse})")
    return found, is_well


def _known(kind: str, engine: str, name: str, found: set[str]) -> str | None:
    """Return whose levels flip, if they may: ours at ties, or an engine's that rounds within certain operators.

    ONNX Runtime, optimized, computes QuantizeLinear and DequantizeLinear with what lies between in integers. OpenVINO
    averages what DequantizeLinear yields in integers: what is truncated behind it differs.
    """
    if kind == "integer":
        return "tie" if name in FLIPPED else None
    if "QuantizeLinear" not in found:
        return None
    averages = engine == "openvino" and kind == "qcdq" and found & {"AveragePool", "GlobalAveragePool"}
    return "theirs" if engine == "optimized" or averages else None


def _is_number(text: str) -> bool:
    """Tell whether an engine gave a small error, and nothing else is said of it."""
    return text.replace("e-", "").replace("e+", "").isdecimal()


def operators(path: Path) -> set[str]:
    """Return the operators of a model."""
    return {node.op_type for node in onnx_passes.load(path).graph}


def main() -> int:
    """Print a table; tell by the exit code whether every file loads and computes the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="more networks, in folders as zoo and brevitas")
    parser.add_argument("--only", default="", help="networks with this in their name")
    given = parser.parse_args()
    print(f"{'network':44} {'export':9} {'; '.join(ENGINES)}: error, of the greatest output")
    failed, right = 0, Counter[tuple[str, str]]()
    for network in networks(given.folder):
        for kind in PIPELINES if given.only in network.name else ():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found, is_well = check(network, kind, Path(folder))
                except OnnxPassesError as error:
                    found = [str(error).splitlines()[0]]
                    is_well = kind == "integer" and REFUSED.get(network.name, "\n") in found[0]
            print(f"{network.name:44} {kind:9} {'; '.join(found)}{'' if is_well else '  ← wrong'}", flush=True)
            failed += not is_well
            right.update((kind, engine) for engine, text in zip(ENGINES, found, strict=False) if _is_number(text))
    for kind in PIPELINES:
        print(f"{kind:9} within {TOLERANCE:g}: " + ", ".join(f"{right[kind, engine]} {engine}" for engine in ENGINES))
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
