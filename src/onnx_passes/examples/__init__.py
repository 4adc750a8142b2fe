"""Small quantized models of our own with real test data: handwritten digits of 8×8 pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onnx_passes.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAMES = ("digits-mlp", "digits-cnn")

_FOLDER = Path(__file__).parent
_LARGEST_PIXEL = 16
_FILES = {
    "model.onnx": "digits_float",
    "quantized.onnx": "digits_cnn",
    "models/cnn.onnx": "digits_float",
    "models/quantized_cnn.onnx": "digits_cnn",
    "models/quantized_mlp.onnx": "digits_mlp",
}


class Digits(NamedTuple):
    """Test data that no model has seen in training.

    ``logits`` holds what the executor of qonnx computes for the first images, ``accuracy`` its share of right
    answers over all of them, both by the name of the model.
    """

    image: NDArray[np.float32]
    label: NDArray[np.int64]
    logits: dict[str, NDArray[np.float32]]
    accuracy: dict[str, float]


def path(name: str) -> Path:
    """Locate the file of an example model."""
    if name not in NAMES:
        hint = did_you_mean(name, NAMES) or f"the examples are {', '.join(NAMES)}"
        raise UsageError(f"there is no example model '{name}'", hint=hint)
    return _FOLDER / f"{name.replace('-', '_')}.onnx"


def write(folder: Path) -> list[str]:
    """Write models and data to work with into a folder, under the names that the documentation uses."""
    import shutil

    import numpy as np

    (folder / "models").mkdir(parents=True, exist_ok=True)
    for name, source in _FILES.items():
        shutil.copyfile(_FOLDER / f"{source}.onnx", folder / name)
    data = digits()
    np.save(folder / "images.npy", data.image)
    np.save(folder / "labels.npy", data.label)
    return [*_FILES, "images.npy", "labels.npy"]


def digits() -> Digits:
    """Load the test data, with images scaled to 0..1 as every example model expects them."""
    import numpy as np

    with np.load(_FOLDER / "digits_test.npz", allow_pickle=False) as stored:
        return Digits(
            image=stored["pixels"][:, np.newaxis].astype(np.float32) / _LARGEST_PIXEL,
            label=stored["label"],
            logits={name: stored[f"{_kind(name)}_logits"] for name in NAMES},
            accuracy={name: float(stored[f"{_kind(name)}_accuracy"]) for name in NAMES},
        )


def _kind(name: str) -> str:
    return name.removeprefix("digits-")
