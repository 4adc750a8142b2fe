"""Convert inputs to initializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError, UsageError
from onnx_passes.core.options import internal, named_by_user
from onnx_passes.passes.interface.values import named
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.verify.samples.numpy_files import read_numpy

_FILES = (".npy", ".npz")
_WORDS = {"true": 1, "false": 0}


@passes.verify.equality
@passes.register(tags=("interface",))
class MakeInitializers(EditorPass):
    """Fix the values of inputs, and make them initializers; make-inputs is the inverse.

    Rewrites: with ``w=[1, 2]`` the model ``g (x, float[2] w) => (y)`` → ``g (x) => (y) <float[2] w = {1, 2}>``; with
              ``w=file.npy`` the array of the file, with ``w=file.npz`` its array of that name, or its only one; a
              single number fills an input of fixed shape.
    Refuses:  names that no input has, patterns; values that the type or shape of the input does not allow; to fill an
              input of unknown size; an input that is also an output.
    Exactness: bit-exact for callers that passed these values.
    """

    values: Mapping[str, object] = named_by_user("input, and its value: numbers, or a file (.npy, .npz)")

    _arrays: dict[str, np.ndarray] = internal(default_factory=dict[str, np.ndarray])

    def __post_init__(self) -> None:
        if not self.values:
            raise OptionError("nothing is fixed", hint=f"as in {self.name}{{w=[1, 2]}}")
        arrays = {name: given.tolist() for name, given in self.values.items() if isinstance(given, np.ndarray)}
        self.values = {**self.values, **arrays}

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Read the given values, and store them in the model."""
        graph = model.graph
        self._arrays = {}
        fixed = {str(value.name): value for value in graph.initializers.values() if not value.is_graph_input()}
        inputs = {str(value.name): value for value in graph.inputs}
        meant = [named(name, inputs, "input") for name in self.values if name not in fixed]
        arrays = {value: _array_for(value, self.values[str(value.name)]) for value in meant}
        for value in meant:
            if value.is_graph_output():
                raise PassFailedError(f"input '{value.name}' is also an output", hint="drop that output first")

        def put() -> None:
            for value, array in arrays.items():
                graph.inputs.remove(value)
                value.const_value = ir.tensor(array, dtype=value.dtype, name=value.name)
                value.shape = ir.Shape(array.shape)
                graph.register_initializer(value)
            model.ir_version = max(model.ir_version, 4)

        if arrays and editor.change("inputs as initializers", (), put):
            self._arrays = {str(value.name): array for value, array in arrays.items()}

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data without the fixed inputs. Raises UsageError if the data have other values for them."""
        for name, array in self._arrays.items():
            if name in sample and not np.array_equal(sample[name], array):
                raise UsageError(f"the data have another value for input '{name}' than the fixed one")
        return {name: array for name, array in sample.items() if name not in self._arrays}

    def inputs_before(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data with the fixed inputs."""
        return {**sample, **self._arrays}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results unchanged."""
        return dict(results)


def _array_for(value: ir.Value, given: object) -> np.ndarray:
    """Return the given value of an input, in its type and shape."""
    if value.dtype is None or not isinstance(value.type, ir.TensorType):
        raise PassFailedError(f"input '{value.name}' is not a tensor of known type", hint="run shape-inference first")
    is_file = isinstance(given, str) and Path(given).suffix.lower() in _FILES
    found = _read(str(given), str(value.name)) if is_file else _numbers(given, str(value.name))
    array = found.astype(value.dtype.numpy())
    written = is_file or not value.dtype.is_floating_point()
    if written and not np.array_equal(array.astype(found.dtype), found, equal_nan=found.dtype.kind == "f"):
        raise PassFailedError(
            f"input '{value.name}' is of type {value.dtype.name.lower()}, which cannot hold the given value",
            hint=f"the given value is {found.dtype}",
        )
    return _shaped(value, array)


def _read(path: str, name: str) -> np.ndarray:
    if not Path(path).is_file():
        raise UsageError("there is no such file", where=path, hint=f"it must contain the value of input '{name}'")
    content = read_numpy(Path(path))
    if isinstance(content, np.ndarray):
        return content
    if name not in content and len(content) != 1:
        raise UsageError(f"the file has no array '{name}'", where=path, hint=f"it has {', '.join(content)}")
    return content.get(name, next(iter(content.values())))


def _numbers(given: object, name: str) -> np.ndarray:
    """Parse a number, or nested lists of numbers, from pipeline text or Python."""

    def read(part: object) -> object:
        if isinstance(part, Sequence) and not isinstance(part, str):
            return [read(one) for one in cast("Sequence[object]", part)]
        text = str(part).strip().lower()
        whole = text.lstrip("+-").isdecimal()
        return _WORDS[text] if text in _WORDS else int(text) if whole else float(text)

    try:
        array = np.asarray(read(given))
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise PassFailedError(
            f"'{given}' is not a value for input '{name}'", hint="give a number, a list of them, or a file (.npy, .npz)"
        )
    return array


def _shaped(value: ir.Value, array: np.ndarray) -> np.ndarray:
    """Return the array in the shape of the input, filled from a number; refuse other shapes."""
    if value.shape is None:
        return array
    sizes = [dim if isinstance(dim, int) else None for dim in value.shape]
    if array.ndim == 0 and sizes:
        if None in sizes:
            raise PassFailedError(
                f"input '{value.name}' has a size that is not known: {value.shape}",
                hint="fix its shape first (fix-shapes, --shape), or give an array",
            )
        return np.full([size or 0 for size in sizes], array)
    if array.ndim != len(sizes) or any(size not in (None, n) for size, n in zip(sizes, array.shape, strict=True)):
        raise PassFailedError(
            f"input '{value.name}' has the shape {value.shape}, the given value {list(array.shape)}",
            hint="give as many numbers as the input has elements",
        )
    return array
