"""QONNX as a client: its own clean-up and execution take what is exported, and compute the same.

Run by ``make clients``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
from networks import Network, networks

warnings.filterwarnings("ignore")

from qonnx.core.modelwrapper import ModelWrapper  # noqa: E402
from qonnx.core.onnx_exec import execute_onnx  # noqa: E402
from qonnx.util.cleanup import cleanup_model  # noqa: E402

import onnx_passes  # noqa: E402

PIPELINES = {
    "qonnx": "cleanup, export-qonnx",
    "streamlined": "streamline, separate-thresholds, flip-thresholds, decompose-thresholds, export-qonnx",
    "finn": "streamline, export-finn",
}
TOLERANCE = 1e-5
"""Of the greatest output."""
TIES = ("brevitas/zeropoint_asym_w8a8",)
"""Networks in which values lie on the very edge of two levels, so that streamlining decides some otherwise."""
FINN = "finn.custom_op.fpgadataflow"
"""Layers of FINN, which QONNX itself does not execute."""


def check(network: Network, kind: str, folder: Path) -> tuple[str, bool]:
    """Export a network, clean it up and run it, all the rest by QONNX; returns the error, and whether it is small."""
    path = folder / f"{kind}.onnx"
    onnx_passes.apply(of_fixed_shape(network), PIPELINES[kind]).save(path)
    if any(node.domain.startswith(FINN) for node in onnx.load(path).graph.node):
        return "FINN's", True
    size = max(float(np.abs(network.expected).max()), 1e-30)
    model = cleanup_model(ModelWrapper(str(path)))
    # QONNX names inputs anew, and keeps their order.
    names = [value.name for value in model.graph.input]
    feeds = {name: array.astype(np.float32) for name, array in zip(names, network.inputs.values(), strict=True)}
    found = execute_onnx(model, feeds)[model.graph.output[0].name]
    error = float(np.abs(found.reshape(-1) - network.expected.reshape(-1)).max()) / size
    is_tie = kind != "qonnx" and network.name in TIES
    return f"{error:.0e}{' (ties)' if is_tie else ''}", is_tie or error <= TOLERANCE


def of_fixed_shape(network: Network) -> onnx.ModelProto:
    """Return the model for inputs of these sizes alone, as QONNX wants it."""
    model = onnx.load(network.path)
    for value in model.graph.input:
        shape = network.inputs[value.name].shape if value.name in network.inputs else ()
        for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=False):
            dim.dim_value = size
    for value in model.graph.output:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_value = len(network.expected)
    return model


def main() -> int:
    """Print a table; tell by the exit code whether every file is read and computes the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="more networks, in folders as zoo and brevitas")
    parser.add_argument("--only", default="", help="networks with this in their name")
    given = parser.parse_args()
    failed = 0
    print(f"{'network':36} " + " ".join(f"{kind:>12}" for kind in PIPELINES))
    for network in networks(given.folder, ("zoo", "brevitas")):
        if given.only not in network.name:
            continue
        found = list[str]()
        for kind in PIPELINES:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    text, is_well = check(network, kind, Path(folder))
                except Exception as error:  # noqa: BLE001 - whatever a client says is a finding
                    text, is_well = f"failed: {str(error).strip().splitlines()[-1][:80]}", False
            found.append(text if is_well else f"{text} ← wrong")
            failed += not is_well
        print(f"{network.name:36} " + " ".join(f"{text:>12}" for text in found), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
