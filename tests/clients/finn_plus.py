"""FINN+ as a client: its front end, as it is installed, takes networks apart with our passes.

Run by ``make clients``. Each network goes through the four stages of ``finn.builder.passes``; what comes out is run by
QONNX and compared with the original, and all that is multiplied there must be integers. Networks are the examples of
the package and, where they are present, those of the folder that is named on the command line.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx

warnings.filterwarnings("ignore")

from finn.builder import passes as front_end  # noqa: E402
from qonnx.core.modelwrapper import ModelWrapper  # noqa: E402
from qonnx.core.onnx_exec import execute_onnx  # noqa: E402

import onnx_passes  # noqa: E402
import onnx_passes.examples  # noqa: E402

STAGES = (front_end.prepare, front_end.inline, front_end.streamline, front_end.export)
NETWORKS = {
    "zoo/TFC_1W1A": 0,
    "zoo/TFC_1W2A": 0,
    "zoo/TFC_2W2A": 0,
    "zoo/kwsmlp_w3a3": 0,
    "zoo/qkeras_jettagging": 1,
    "zoo/unsw_nb15-mlp-w2a2": 0,
    "brevitas/mlp_w4a4_mnist": 0,
    "brevitas/mlp_w4a4_mnist__dynamo": 0,
    "brevitas/resmlp_unsigned_w4a4": 0,
    "brevitas/bnnpynq_cnv_1w1a": 0,
    "brevitas/bnnpynq_cnv_2w2a": 0,
    "brevitas/dwsep_cnn_w4a4_fashion": 0,
    "brevitas/inception_concat_w4a4": 0,
    "brevitas/mobilenet_v1_4w4a_x025_96": 1,
    "brevitas/resnet8_w4a4_fashion": 0,
    "brevitas/resnet18_w8_4w4a": 1,
}
"""Networks for hardware, and how many of their layers see an input that is not quantized."""
FLOATS = {"digits_float": 6}
"""Examples that are not quantized, and how many products they have."""
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Network:
    """A model with one input, the output for it, and how many products are of floats from the start."""

    name: str
    model: onnx.ModelProto
    x: np.ndarray
    expected: np.ndarray
    floats: int = 0


def examples() -> Iterator[Network]:
    """Yield the networks of the package; hardware is built for one image at a time."""
    folder = Path(onnx_passes.examples.__file__).parent
    image = (np.load(folder / "digits_test.npz")["pixels"][:1, None] / 16).astype(np.float32)
    for path in sorted(folder.glob("*.onnx")):
        model = onnx.load(path)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 1
        [expected] = onnx_passes.run_model(path, {model.graph.input[0].name: image}).values()
        yield Network(path.stem, model, image, expected, FLOATS.get(path.stem, 0))


def others(folder: Path) -> Iterator[Network]:
    """Yield the networks of a folder, with stored inputs and outputs beside them."""
    for name, floats in NETWORKS.items():
        if (folder / f"{name}.onnx").exists():
            data = np.load(folder / f"{name}.npz")
            x, expected = (data[next(key for key in data.files if key.startswith(tag))] for tag in ("in_b1", "out_b1"))
            model = onnx.load(folder / f"{name}.onnx")
            # QONNX runs nodes by a version of ONNX Runtime that does not know newer ones.
            model.ir_version = min(model.ir_version, 10)
            yield Network(name, model, x.astype(np.float32), expected, floats)


def build_configuration() -> SimpleNamespace:
    """Say what the front end reads of a configuration of FINN+: nothing to verify, no layouts."""
    return SimpleNamespace(
        layouts_config_file=None,
        verify_input_npy=None,
        verify_expected_output_npy=None,
        verify_save_full_context=False,
        verification_atol=1e-4,
        verification_rtol=1e-4,
        _resolve_verification_steps=list,
    )


def check(network: Network) -> tuple[str, bool]:
    """Run the front end, then the result; returns a line of a table, and whether all is well."""
    model, started = ModelWrapper(network.model), time.process_time()
    for stage in STAGES:
        model = stage(model, build_configuration())
    cpu = time.process_time() - started
    values = execute_onnx(model, {model.graph.input[0].name: network.x}, return_full_exec_context=True)
    error = float(np.abs(values[model.graph.output[0].name].reshape(-1) - network.expected.reshape(-1)).max())
    products = [node for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "Conv")]
    integer = [all(np.array_equal(values[name], np.rint(values[name])) for name in node.input[:2]) for node in products]
    operators = ", ".join(f"{count} {name}" for name, count in Counter(n.op_type for n in model.graph.node).items())
    line = f"{network.name:36} {cpu:6.2f} {error:8.1e}  {sum(integer):2} of {len(integer):2}  {operators}"
    return line, error <= TOLERANCE and len(integer) - sum(integer) == network.floats


def main() -> int:
    """Print a table; tell by the exit code whether every network came out as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="more networks, in the folders zoo and brevitas")
    folder = parser.parse_args().folder
    print(f"{'network':36} {'CPU s':>6} {'error':>8}  integer   operators")
    failed = 0
    for network in [*examples(), *(others(folder) if folder is not None else ())]:
        try:
            line, is_well = check(network)
        except Exception:  # noqa: BLE001
            line, is_well = f"{network.name}\n{traceback.format_exc()}", False
        print(line + ("" if is_well else "  ← wrong"), flush=True)
        failed += not is_well
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
