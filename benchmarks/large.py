"""Cost of runs on a model that does not fit in memory: a decoder like Llama 7B, its weights in a sparse file.

    python benchmarks/large.py [--folder FOLDER] [--layers N] [--element TYPE] [--dense] [--memory-limit SIZE]
                               [--only TEXT] [--make FILE]

The model has 1 738 nodes and 13.5 GB of float16 in one data file, of which only the start of every weight is written,
unless it is to be dense. For each run: CPU seconds, the most memory of its own and the most of mapped files at any time
(of all processes together, looked at every 20 ms), bytes read and written, and bytes that the result takes on the disk.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

HIDDEN, INNER, HEADS, VOCABULARY, POSITIONS = 4096, 11008, 32, 32000, 4096
HEAD = HIDDEN // HEADS
PAGE = 4096

ELEMENTS = {"bfloat16": TensorProto.BFLOAT16, "float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT}
RUNS = {
    "cleanup": ["cleanup", "--verify", "off"],
    "simplify": ["simplify", "--verify", "off"],
    "simplify, data shared": ["simplify", "--verify", "off", "--share-data"],
    "simplify, verified": ["simplify"],
}


class Decoder:
    """Builds the graph node by node and the data file weight by weight."""

    def __init__(self, data: Path, element: int = TensorProto.FLOAT16, *, dense: bool = False) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.element = element
        self._dense = dense
        self._location = data.name
        self._file = data.open("wb")
        self._end = 0

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Add a node; returns the name of what it computes."""
        return self.ops(operator, *inputs, count=1, **attributes)[0]

    def ops(self, operator: str, *inputs: str, count: int, **attributes: object) -> list[str]:
        """Add a node with several outputs."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        outputs = [f"{name}_out{number}" for number in range(count)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name, **attributes))
        return outputs

    def constant(self, name: str, array: np.ndarray) -> str:
        """Keep a small constant in the model; floats get the element type of the model."""
        if array.dtype.kind == "f":
            self.initializers.append(helper.make_tensor(name, self.element, array.shape, array.ravel().tolist()))
        else:
            self.initializers.append(onnx.numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *dims: int, values: np.ndarray | None = None) -> str:
        """Give a weight its place in the data file; unless the file is dense, only its first values are written."""
        dtype = helper.tensor_dtype_to_np_dtype(self.element)
        size = int(np.prod(dims)) * dtype.itemsize
        if values is None:
            count = int(np.prod(dims)) if self._dense else 64
            values = np.random.default_rng(len(self.initializers)).standard_normal(count, np.float32) * np.float32(0.02)
        self._file.seek(self._end)
        self._file.write(values.astype(dtype).tobytes())
        self._file.truncate(self._end + size)
        tensor = TensorProto(name=name, data_type=self.element, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self._location), ("offset", self._end), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        self._end += -(-size // PAGE) * PAGE
        return name

    def close(self) -> None:
        self._file.truncate(self._end)
        self._file.close()

    def norm(self, x: str, name: str) -> str:
        """Normalise by the root of the mean of squares, written out."""
        mean = self.op("ReduceMean", self.op("Pow", x, "two"), "last", keepdims=1)
        scaled = self.op("Div", x, self.op("Sqrt", self.op("Add", mean, "epsilon")))
        values = np.random.default_rng(len(self.nodes)).uniform(0.5, 1.5, HIDDEN)
        return self.op("Mul", self.weight(f"{name}.weight", HIDDEN, values=values), scaled)

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        return self.op("MatMul", x, self.weight(f"{name}.weight", inputs, outputs))

    def heads(self, x: str) -> str:
        return self.op("Transpose", self.op("Reshape", x, "split"), perm=[0, 2, 1, 3])

    def rotate(self, x: str, cos: str, sin: str) -> str:
        """Apply the rotary embedding, written out."""
        first, second = self.ops("Split", x, count=2, axis=-1, num_outputs=2)
        turned = self.op("Concat", self.op("Neg", second), first, axis=-1)
        return self.op("Add", self.op("Mul", x, cos), self.op("Mul", turned, sin))

    def attention(self, x: str, name: str) -> str:
        query, key, value = (self.heads(self.linear(x, f"{name}.{part}_proj", HIDDEN, HIDDEN)) for part in "qkv")
        angles = [self.op("Gather", f"{table}_table", "position_ids") for table in ("cos", "sin")]
        transposed = self.op("Transpose", self.rotate(key, *angles), perm=[0, 1, 3, 2])
        scores = self.op("Div", self.op("MatMul", self.rotate(query, *angles), transposed), "scale")
        masked = self.op("Cast", self.op("Add", scores, "mask"), to=TensorProto.FLOAT)
        weights = self.op("Cast", self.op("Softmax", masked, axis=-1), to=self.element)
        merged = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", merged, "join"), f"{name}.o_proj", HIDDEN, HIDDEN)

    def layer(self, x: str, name: str) -> str:
        x = self.op("Add", x, self.attention(self.norm(x, f"{name}.input_norm"), f"{name}.attention"))
        inner = self.norm(x, f"{name}.mlp_norm")
        gate = self.linear(inner, f"{name}.gate_proj", HIDDEN, INNER)
        gated = self.op(
            "Mul", self.op("Mul", gate, self.op("Sigmoid", gate)), self.linear(inner, f"{name}.up", HIDDEN, INNER)
        )
        return self.op("Add", x, self.linear(gated, f"{name}.down_proj", INNER, HIDDEN))


def make(path: Path, layers: int = 32, element: int = TensorProto.FLOAT16, *, dense: bool = False) -> Path:
    """Write the model and its data file."""
    decoder = Decoder(path.with_name(f"{path.name}.data"), element, dense=dense)
    for name, number in (("two", 2), ("epsilon", 1e-5), ("scale", HEAD**0.5)):
        decoder.constant(name, np.array(number, np.float32))
    decoder.constant("last", np.array([-1], np.int64))
    decoder.constant("split", np.array([0, 0, HEADS, HEAD], np.int64))
    decoder.constant("join", np.array([0, 0, HIDDEN], np.int64))
    angles = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(HEAD) % (HEAD // 2) / (HEAD // 2))
    for name, values in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
        decoder.weight(f"{name}_table", POSITIONS, HEAD, values=values)
    tokens = decoder.op("Identity", "input_ids")
    x = decoder.op("Gather", decoder.weight("embedding.weight", VOCABULARY, HIDDEN), tokens)
    for number in range(layers):
        x = decoder.layer(x, f"layers.{number}")
    decoder.op("Identity", decoder.linear(decoder.norm(x, "norm"), "lm_head", HIDDEN, VOCABULARY))
    decoder.nodes[-1].output[0] = "logits"
    decoder.close()
    batch, length = "batch", "sequence"
    graph = helper.make_graph(
        decoder.nodes,
        "decoder",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, [batch, length]),
            helper.make_tensor_value_info("position_ids", TensorProto.INT64, [batch, 1, length]),
            helper.make_tensor_value_info("mask", element, [batch, 1, length, length]),
        ],
        [helper.make_tensor_value_info("logits", element, [batch, length, VOCABULARY])],
        decoder.initializers,
    )
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path


def status(pid: int) -> dict[str, int]:
    """Return the memory of a process in bytes, as the kernel names it; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: int(rest.split()[0]) * 1024 for key, rest in (line.split(":", 1) for line in lines) if "kB" in rest}


def traffic(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return {}
    return {key: int(rest) for key, rest in (line.split(":") for line in lines)}


def family(pid: int) -> list[int]:
    """List a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(member for child in children for member in family(int(child)))]


def measure(title: str, arguments: Sequence[str], model: Path, out: Path) -> None:
    command = [sys.executable, "-m", "onnx_passes", "-q", "-o", str(out), str(model), *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Users have compiled modules.
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    own = mapped = 0
    io: dict[str, int] = {}
    while process.poll() is None:
        found = [status(pid) for pid in family(process.pid)]
        own = max(own, sum(entry.get("RssAnon", 0) + entry.get("RssShmem", 0) for entry in found))
        mapped = max(mapped, *(entry.get("RssFile", 0) for entry in found))
        io = traffic(process.pid) or io
        time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    made = sum(entry.stat().st_blocks * 512 for entry in out.parent.glob(f"{out.name}*"))
    figures = (own, mapped, io.get("rchar", 0), io.get("wchar", 0), made)
    shown = "".join(f"{figure / 1e6:10.1f}" for figure in figures)
    print(f"{title:24}{cpu[0]:8.2f}{cpu[1]:8.2f}{shown}  exit {process.returncode}", flush=True)
    if process.returncode:
        print(process.stderr.read() if process.stderr else "", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the model is made; what is made there is removed")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--element", choices=sorted(ELEMENTS), default="float16", help="the type of the weights")
    parser.add_argument("--dense", action="store_true", help="write all elements of all weights")
    parser.add_argument("--memory-limit", metavar="SIZE", help="what verification may take")
    parser.add_argument("--only", default="", help="runs with this text in their title")
    parser.add_argument("--make", type=Path, help="only make the model, in this file")
    chosen = parser.parse_args()
    if chosen.make is not None:
        make(chosen.make, chosen.layers, ELEMENTS[chosen.element], dense=chosen.dense)
        return
    columns = ("CPU s", "system", "own MB", "mapped", "MB read", "written", "on disk")
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        model = make(Path(folder) / "decoder.onnx", chosen.layers, ELEMENTS[chosen.element], dense=chosen.dense)
        limit = ["--memory-limit", chosen.memory_limit] if chosen.memory_limit else []
        size = model.with_name(f"{model.name}.data").stat().st_size
        print(f"{len(onnx.load(model, load_external_data=False).graph.node)} nodes, {size / 1e9:.1f} GB of weights")
        print(f"{'':24}" + "".join(f"{column:>{8 if at < 2 else 10}}" for at, column in enumerate(columns)))
        for title, arguments in RUNS.items():
            if chosen.only in title:
                measure(title, [*arguments, *limit], model, model.with_name("out.onnx"))
                for made in model.parent.glob("out.onnx*"):
                    made.unlink()


if __name__ == "__main__":
    main()
