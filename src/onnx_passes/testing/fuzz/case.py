"""A case: a model and its possible inputs, sent to the worker as bytes."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.testing.fuzz.build import ModelInput

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model as bytes, its inputs, and the seed of the data; ``given`` are fixed data.

    ``other_shapes`` are further shapes for inputs with dynamic dimensions. ``divides`` marks integer division, in which
    a zero would end the process.
    """

    model: bytes
    inputs: tuple[ModelInput, ...] = ()
    seed: int = 0
    other_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    divides: bool = False
    given: Arrays | None = None

    def encode(self) -> bytes:
        """Encode the case as bytes."""
        data: dict[str, Any] = {
            "model": base64.b64encode(self.model).decode(),
            "inputs": [{**vars(i), "dtype": i.dtype.value, "values": _pack(i.values)} for i in self.inputs],
            "seed": self.seed,
            "other_shapes": self.other_shapes,
            "divides": self.divides,
            "given": None if self.given is None else {name: _pack(array) for name, array in self.given.items()},
        }
        return json.dumps(data).encode()

    @staticmethod
    def decode(data: bytes) -> Case:
        """Decode the bytes of ``encode``."""
        plain = json.loads(data)
        inputs = [_input(item) for item in plain["inputs"]]
        given = plain["given"]
        return Case(
            base64.b64decode(plain["model"]),
            tuple(inputs),
            plain["seed"],
            {name: tuple(shape) for name, shape in plain["other_shapes"].items()},
            plain["divides"],
            None if given is None else {name: _array(item) for name, item in given.items()},
        )


def _pack(array: np.ndarray | None) -> dict[str, Any] | None:
    if array is None:
        return None
    if array.dtype == object:
        return {"strings": array.tolist(), "shape": list(array.shape)}
    dtype = ir.DataType.from_numpy(array.dtype)
    return {
        "dtype": dtype.value,
        "shape": list(array.shape),
        "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    }


def _input(item: dict[str, Any]) -> ModelInput:
    name, dtype, shape = item["name"], ir.DataType(item["dtype"]), tuple(item["shape"])
    return ModelInput(name, dtype, shape, _unpack(item["values"]), item["at_most"], item["overridable"])


def _unpack(item: dict[str, Any] | None) -> np.ndarray | None:
    return None if item is None else _array(item)


def _array(item: dict[str, Any]) -> np.ndarray:
    if "strings" in item:
        return np.array(item["strings"], dtype=object).reshape(item["shape"])
    dtype = ir.DataType(item["dtype"]).numpy()
    return np.frombuffer(base64.b64decode(item["data"]), dtype).reshape(item["shape"])
