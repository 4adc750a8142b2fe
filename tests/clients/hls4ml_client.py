"""hls4ml as a client: it converts what we export, compiles its C++ simulation, and predicts.

Run by ``make clients``; needs g++. Each network is exported by the command line, and beside it prepared by qonnx's own
clean-up, as hls4ml's documentation has it. Predictions are compared with stored outputs. Networks are the examples of
the package and, where they are present, those of the folder that is named on the command line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

warnings.filterwarnings("ignore")

import hls4ml as client  # noqa: E402
from qonnx.core.modelwrapper import ModelWrapper  # noqa: E402
from qonnx.core.onnx_exec import execute_onnx  # noqa: E402
from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean  # noqa: E402
from qonnx.transformation.gemm_to_matmul import GemmToMatMul  # noqa: E402
from qonnx.util.cleanup import cleanup_model  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "src" / "onnx_passes" / "examples"
NETWORKS = {
    "zoo/qkeras_jettagging": False,
    "zoo/TFC_1W1A": False,
    "zoo/TFC_1W2A": False,
    "zoo/TFC_2W2A": False,
    "zoo/kwsmlp_w3a3": False,
    "brevitas/mlp_w4a4_mnist": False,
    "brevitas/resmlp_shared_w4a4": False,
    "brevitas/pow2_pertensor_w4a4": True,
    "brevitas/dwsep_cnn_w4a4_fashion": True,
}
"""Networks, and whether their images get their channels last."""
PRECISION = "fixed<32,16>"
SAMPLES = 16
NEAR = 1e-3
"""How far, in parts of the largest output, predictions may be from what is stored."""


@dataclass(frozen=True)
class Network:
    """A model file with data for one input and one output."""

    name: str
    path: Path
    x: np.ndarray
    expected: np.ndarray
    is_image: bool


@dataclass(frozen=True)
class Outcome:
    """How far predictions are from what is stored, or why there are none."""

    error: float = np.inf
    agrees: float = 0.0
    layers: int = 0
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return self.problem[:48]
        return f"{self.error:8.1e} {self.agrees:4.0%} {self.layers:3} layers"


def examples() -> Iterator[Network]:
    """Yield the networks of the package, whose outputs their own format gives."""
    images = (np.load(EXAMPLES / "digits_test.npz")["pixels"][:SAMPLES, None] / 16).astype(np.float32)
    for path in sorted(EXAMPLES.glob("*.onnx")):
        model = onnx.load(path)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 1
        yield Network(path.stem, path, images, run_each(model, images), path.stem.endswith("cnn"))


def stored(folder: Path) -> Iterator[Network]:
    """Yield the networks of a folder, with inputs and outputs beside them."""
    for name, is_image in NETWORKS.items():
        path = folder / f"{name}.onnx"
        if path.exists():
            data = np.load(path.with_suffix(".npz"))
            key = max((key for key in data.files if key.startswith("in")), key=lambda key: data[key].shape[0])
            tag = key.split("_")[1]
            x, y = data[key], data[next(key for key in data.files if key.startswith(f"out_{tag}_"))]
            if tag.startswith("s"):
                x, y = x.reshape(-1, *x.shape[2:]), y.reshape(-1, *y.shape[2:])
            yield Network(path.stem, path, x[:SAMPLES].astype(np.float32), y[:SAMPLES], is_image)


def run_each(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """Run a model in qonnx, one sample at a time."""
    wrapped = cleanup_model(ModelWrapper(model))
    given, result = wrapped.graph.input[0].name, wrapped.graph.output[0].name
    return np.concatenate([execute_onnx(wrapped, {given: sample[None]})[result] for sample in x])


def exported(network: Network, exporter: list[str], into: Path) -> ModelWrapper:
    """Export by the command line."""
    path = into / f"{network.path.stem}_hls4ml.onnx"
    done = subprocess.run([*exporter, "-o", path, network.path, "hls4ml"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return ModelWrapper(str(path))


def prepared_by_qonnx(network: Network) -> ModelWrapper:
    """Prepare a network as qonnx and hls4ml document it."""
    model = cleanup_model(cleanup_model(ModelWrapper(str(network.path))).transform(GemmToMatMul()))
    if network.is_image:
        model = cleanup_model(model.transform(ConvertToChannelsLastAndClean()).transform(GemmToMatMul()))
    return model


def predict(network: Network, prepare: Callable[[], ModelWrapper]) -> Outcome:
    """Convert, compile, predict and compare."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
            model = prepare()
            options = {"backend": "Vitis"}
            config = client.utils.config.config_from_onnx_model(
                model, granularity="name", default_precision=PRECISION, **options
            )
            built = client.converters.convert_from_onnx_model(
                model, output_dir=folder, io_type="io_parallel", hls_config=config, **options
            )
            built.compile()
            x = np.moveaxis(network.x, 1, -1) if network.is_image else network.x
            found = built.predict(np.ascontiguousarray(x)).reshape(network.expected.shape)
        rows = [each.reshape(len(each), -1).argmax(1) for each in (found, network.expected)]
        error = float(np.abs(found - network.expected).max())
        return Outcome(error, float((rows[0] == rows[1]).mean()), len(list(built.get_layers())))
    except Exception as error:  # noqa: BLE001
        return Outcome(problem=f"{type(error).__name__}: {error}".splitlines()[0])


def main() -> int:
    """Print a table; tell by the exit code whether every export is taken and agrees as well as qonnx's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="more networks")
    parser.add_argument("--exporter", default="onnx-passes", help="the command that exports")
    parser.add_argument("--only", default="", help="networks whose names contain this")
    chosen = parser.parse_args()
    failed = 0
    print(f"{'network':28} {'exported by hls4ml':32} prepared by qonnx")
    with tempfile.TemporaryDirectory() as made:
        into, exporter = Path(made), shlex.split(chosen.exporter)
        more = () if chosen.folder is None else stored(chosen.folder)
        for network in (*more, *examples()):
            if chosen.only not in network.name:
                continue
            ours = predict(network, lambda network=network: exported(network, exporter, into))
            theirs = predict(network, lambda network=network: prepared_by_qonnx(network))
            is_well = ours.error <= max(NEAR * float(np.abs(network.expected).max()), theirs.error)
            is_well = is_well and not ours.problem
            print(f"{network.name:28} {ours!s:32} {theirs}{'' if is_well else '  ← wrong'}", flush=True)
            failed += not is_well
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
