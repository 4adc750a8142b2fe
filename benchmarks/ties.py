"""Right results at ties: random quantized networks with few outputs, on data that lies on the edges of levels.

    python benchmarks/ties.py [--networks 500] [--seed 0] [MODEL…]

Every network is streamlined and verified; scales are equal or simple ratios, so that sums and means of levels lie on
edges all the time. What is refused would be a false alarm. The last column of the table counts levels that flipped, and
what exact arithmetic says of them. With models, these are streamlined and verified instead, on samples of their own
that lie on edges: a line for each whose outputs show flips against the float original, and who is right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.load import load

HEAD = '<ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 2]>'
QUANT = 'qonnx.custom_op.general.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND">'


class Network:
    """Writes the text of a network layer by layer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.weights: list[str] = []
        self.count = 0

    def constant(self, array: np.ndarray) -> str:
        self.count += 1
        shape = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
        numbers = ", ".join(repr(float(np.float32(number))) for number in array.reshape(-1))
        self.weights.append(f"float{shape} c{self.count} = {{{numbers}}}")
        return f"c{self.count}"

    def node(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"v{self.count} = {text}")
        return f"v{self.count}"

    def quant(self, value: str, scale: float, bits: int) -> str:
        parameters = ", ".join(self.constant(np.array(number)) for number in (scale, 0.0, float(bits)))
        return self.node(f"{QUANT} ({value}, {parameters})")

    def model(self) -> ir.Model:
        rng = self.rng
        width, outputs = int(rng.integers(4, 17)) * 2, int(rng.integers(1, 6))
        scale = float(rng.choice([0.1, 0.15, 0.3, 0.07, 1 / 3, 0.25]))
        value = self.quant("x", scale, int(rng.integers(3, 7)))
        for _ in range(int(rng.integers(1, 4))):
            match rng.integers(4):
                case 0:
                    value = self.node(f"AveragePool <kernel_shape = [2], strides = [1], pads = [0, 1]> ({value})")
                case 1:
                    half = self.constant(np.array(float(rng.choice([0.5, 0.25, 1.5]))))
                    value = self.node(f"Mul ({value}, {half})")
                case 2:
                    other = self.quant("x", scale, 4)
                    value = self.node(f"Add ({value}, {other})")
                case _:
                    bias = self.constant(np.array(scale * float(rng.choice([0.5, -0.5, 1.5]))))
                    value = self.node(f"Add ({value}, {bias})")
            if rng.integers(2):
                value = self.node(f"Relu ({value})")
            value = self.quant(value, scale * float(rng.choice([1, 1, 2, 0.5])), int(rng.integers(3, 9)))
        weights = self.constant(rng.normal(scale=0.4, size=(width, outputs)))
        flat = self.node(f"Flatten ({value})")
        last = self.quant(weights, float(rng.choice([0.1, 0.10714286])), 4)
        self.lines.append(f"y = MatMul ({flat}, {last})")
        text = f"{HEAD} g (float[1,1,{width}] x) => (float[1,{outputs}] y) <{', '.join(self.weights)}>"
        return ir.from_onnx_text(f"{text} {{ {' '.join(self.lines)} }}")


def flips_of(model: ir.Model, seed: int) -> list[str]:
    """Streamline and verify a model; returns what is said of levels that flipped."""
    result = onnx_passes.apply(model, "streamline", verify=Verification(seed=seed))
    notes = [note for step in result.record.steps for note in step.notes if "flipped at ties" in note]
    return [note.split(";")[-2].strip() for note in notes]


def models(paths: Sequence[Path], seed: int) -> None:
    """Print the flips of models, and of how many outputs are those of the float original."""
    alike, refused = 0, 0
    for path in paths:
        try:
            flips = flips_of(load(path), seed)
        except OnnxPassesError as error:
            refused += 1
            print(f"{path.stem[:40]:41}refused: {str(error).splitlines()[-1][:120]}", flush=True)
            continue
        alike += not flips
        for text in flips:
            print(f"{path.stem[:40]:41}{text}", flush=True)
    print(f"{len(paths)} models: {alike} show no flips, {refused} refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("models", nargs="*", type=Path)
    asked = parser.parse_args()
    if asked.models:
        models(asked.models, asked.seed)
        return
    started = time.process_time()
    excused, flips, refused = 0, [], []
    for number in range(asked.networks):
        model = Network(np.random.default_rng((asked.seed, number))).model()
        try:
            found = flips_of(model, number)
        except OnnxPassesError as error:
            refused.append((number, str(error).replace("\n", " ")[:300]))
            continue
        excused += bool(found)
        flips += found
    for number, why in refused:
        print(f"network {number} refused: {why}")
    for text in flips[:5]:
        print(f"  {text}")
    share = f"{asked.networks - len(refused)} of {asked.networks} networks accepted"
    print(f"{share}, {excused} of them with levels that flipped; {time.process_time() - started:.0f} s CPU")


if __name__ == "__main__":
    main()
