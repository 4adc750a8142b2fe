"""Train the example models of onnx-passes on scikit-learn's handwritten digits and write them as QONNX."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from digits_export import execute, export
from digits_models import cnn, mlp
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 0
TEST_SIZE = 360
LARGEST_PIXEL = 16
BATCH_SIZE = 64
LEARNING_RATE = 1e-2
STORED_LOGITS = 32
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "onnx_passes" / "examples"


class Recipe(NamedTuple):
    """How to make one model, and how good it has to become."""

    build: Callable[[], nn.Module]
    epochs: int
    accuracy: float


RECIPES = {"mlp": Recipe(mlp, epochs=40, accuracy=0.95), "cnn": Recipe(cnn, epochs=30, accuracy=0.97)}


def to_image(pixels: np.ndarray) -> np.ndarray:
    """Scale pixels of 0 to 16 to one-channel images of 0 to 1."""
    return pixels[:, np.newaxis].astype(np.float32) / LARGEST_PIXEL


def train(network: nn.Module, image: torch.Tensor, label: torch.Tensor, epochs: int) -> None:
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=1e-4)
    steps = epochs * -(-len(image) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    network.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(image)).split(BATCH_SIZE):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(image[batch]), label[batch]).backward()
            optimizer.step()
            schedule.step()


def load_split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give pixels and labels for training, then pixels and labels for the test."""
    digits = load_digits()
    pixels, label = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    train_pixels, test_pixels, train_label, test_label = train_test_split(
        pixels, label, test_size=TEST_SIZE, stratify=label, random_state=SEED
    )
    return train_pixels, train_label, test_pixels, test_label


def make(out: Path) -> None:
    """Train, export and measure all models, and write them only if each is good enough."""
    pixels, label, test_pixels, test_label = load_split()
    image = torch.from_numpy(to_image(pixels))
    models = {}
    stored = {"pixels": test_pixels, "label": test_label}
    for name, recipe in RECIPES.items():
        torch.manual_seed(SEED)
        network = recipe.build()
        train(network, image, torch.from_numpy(label), recipe.epochs)
        models[name] = export(network, image, f"digits_{name}")
        logits = execute(models[name], to_image(test_pixels))
        accuracy = np.mean(logits.argmax(axis=1) == test_label)
        print(f"digits_{name}: {accuracy:.2%} of {len(test_label)} test images")
        if accuracy < recipe.accuracy:
            raise SystemExit(f"digits_{name}: below {recipe.accuracy:.0%}, so no file was written")
        stored[f"{name}_logits"] = logits[:STORED_LOGITS]
        stored[f"{name}_accuracy"] = accuracy

    out.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        (out / f"digits_{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.savez_compressed(out / "digits_test.npz", **stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PACKAGE, help="folder to write to (default: the package)")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    make(out)


if __name__ == "__main__":
    main()
