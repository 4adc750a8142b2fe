"""Models of others: tests with the marker ``models`` read them from the folder that ONNX_PASSES_MODELS names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

VARIABLE = "ONNX_PASSES_MODELS"
FOLDER = Path(os.environ[VARIABLE]).resolve() if os.environ.get(VARIABLE) else None


def outside(name: str) -> Path:
    """Return the path of a model such as ``zoo/TFC_1W1A``."""
    if FOLDER is None:
        raise LookupError(f"{name} is outside of the repository: the test needs the marker 'models'")
    path = FOLDER / f"{name}.onnx"
    if not path.is_file():
        raise FileNotFoundError(f"{VARIABLE}: {path} is missing")
    return path


def outside_models(*folders: str) -> list[Path]:
    """List the models of some folders, or of all; none if the variable is not set."""
    if FOLDER is None:
        return []
    return sorted(path for folder in folders or ("*",) for path in FOLDER.glob(f"{folder}/*.onnx"))


def as_parameters(paths: list[Path]) -> list[ParameterSet]:
    """Make parameters with the marker, one that stands for all of them where none are known."""
    if not paths:
        return [pytest.param(None, id="outside", marks=pytest.mark.models)]
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}", marks=pytest.mark.models) for path in paths]
