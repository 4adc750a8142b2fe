"""Fragments that read the same values, run side by side on chosen arrays by whoever runs the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.assembly import Assembly, DtypeOf, Shapes
from onnx_passes.fragment.fragment import Fragment, shared_inputs

Sample = dict[str, np.ndarray]


class Prepared(Protocol):
    """A model that runs."""

    def run(self, sample: Sample) -> Sample:
        """Return the outputs by name."""
        ...


class Runtime(Protocol):
    """What makes models run."""

    def prepare(self, model: ir.Model, *, engine: Literal["onnxruntime"]) -> Prepared:
        """Make a model run in ONNX Runtime."""
        ...


class SideBySide:
    """Runs fragments on arrays for their shared inputs, with operator sets and functions of a model.

    ``dtype_of`` and ``shapes`` are what values are declared to be, as for ``Assembly``.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        like: ir.Model,
        runtime: Runtime,
        *,
        dtype_of: DtypeOf | None = None,
        shapes: Shapes = "ranks",
    ) -> None:
        copies = Assembly(dtype_of=dtype_of, shapes=shapes)
        for value in shared_inputs(fragments):
            copies.feed(value)
        self._results: list[list[ir.Value]] = []
        for fragment in fragments:
            copies.add(fragment.nodes)
            self._results.append([copies.computed(value) for value in fragment.outputs])
        self._inputs = [str(value.name) for value in copies.inputs]
        outputs = dict.fromkeys(value for values in self._results for value in values)
        self._ready = runtime.prepare(copies.model(like, outputs, name="side by side"), engine="onnxruntime")

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Return the outputs of each fragment for arrays in the order of the inputs. Raises ExecutionError."""
        found = self._ready.run(dict(zip(self._inputs, arrays, strict=True)))
        return [[found[str(value.name)] for value in values] for values in self._results]
