"""Networks for clients: the examples of the package, and those of a folder with stored inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import onnx_passes
import onnx_passes.examples

FOLDERS = ("zoo", "brevitas", "qcdq", "ort-quantized", "edge")


@dataclass(frozen=True)
class Network:
    """A model, an input for it, and what it computes."""

    name: str
    path: Path
    inputs: dict[str, np.ndarray]
    expected: np.ndarray


def networks(folder: Path | None, folders: tuple[str, ...] = FOLDERS) -> Iterator[Network]:
    """Yield the examples, and then all quantized networks of a folder."""
    examples = Path(onnx_passes.examples.__file__).parent
    image = (np.load(examples / "digits_test.npz")["pixels"][:1, None] / 16).astype(np.float32)
    for path in sorted(examples.glob("*.onnx")):
        inputs = {onnx.load(path).graph.input[0].name: image}
        [expected] = onnx_passes.run_model(path, inputs).values()
        yield Network(path.stem, path, inputs, expected)
    if folder is not None:
        for kind in folders:
            for path in sorted((folder / kind).glob("*.onnx")):
                if not path.stem.endswith("__float"):
                    yield _stored(f"{kind}/{path.stem}", path)


def _stored(name: str, path: Path) -> Network:
    """Take stored inputs and outputs; without them, what ONNX Runtime makes of random inputs."""
    if path.with_suffix(".npz").exists():
        data = np.load(path.with_suffix(".npz"))
        inputs = {key[len("in_b1__") :]: data[key] for key in data.files if key.startswith("in_b1__")}
        expected = next(data[key] for key in data.files if key.startswith("out_b1__"))
    else:
        inputs = _random(onnx.load(path))
        expected = next(iter(onnx_passes.run_model(path, inputs).values()))
    return Network(name, path, inputs, expected)


def _random(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), dict[str, np.ndarray]()
    held = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in held:
            tensor = value.type.tensor_type
            shape = [dim.dim_value or 1 for dim in tensor.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            numbers = rng.random(shape) if dtype.kind == "f" else rng.integers(0, 8, shape)
            found[value.name] = np.asarray(numbers, dtype)
    return found
