"""Samples that a model takes, found by trying: those that were generated, else smaller ones cut out of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes.verify.run.execute import Executable, ExecutionError, Sample
from onnx_passes.verify.samples.generate import generate
from onnx_passes.verify.samples.reference import read_inputs
from onnx_passes.verify.samples.sizes import dimension_key
from onnx_passes.verify.samples.sources import listed

Axes = Mapping[str, Sequence[int]]

_SIZES = (1, 2, 3, 5, 8, 16, 64)


def dynamic_axes(model: ir.Model) -> Axes:
    """Return the axes of inputs that have no fixed size, by input."""
    return {
        str(value.name): [
            axis for axis, dim in enumerate(value.shape) if dimension_key(str(value.name), axis, dim) is not None
        ]
        for value in model.graph.inputs
        if value.shape is not None
    }


def run_samples(
    ready: Executable, model: ir.Model, inputs: Sequence[Any], seed: int
) -> tuple[list[Sample], list[Sample]]:
    """Run on samples that are read or, without any, generated; returns those that the model took, and its results.

    Of generated samples, those that the model cannot take are left out, or cut where it takes none.
    """
    inputs = listed(inputs)
    if inputs:
        return ready.run_each(read_inputs(model, inputs), all_must_run=True)
    return run_generated(ready, generate(model, seed=seed, thorough=True), dynamic_axes(model))


def run_generated(ready: Executable, samples: Sequence[Sample], axes: Axes) -> tuple[list[Sample], list[Sample]]:
    """Run on generated samples; returns those that the model took, and its results.

    Where it takes none, their sizes may be to blame: dynamic dimensions then get smaller ones in turn. Raises
    ExecutionError, as the generated samples gave it, if no size helps.
    """
    try:
        return ready.run_each(samples, all_must_run=False)
    except ExecutionError as refusal:
        smaller = list(_smaller(samples, axes))
        if not smaller:
            raise
        try:
            return ready.run_each(smaller, all_must_run=False)
        except ExecutionError:
            raise refusal from None


def _smaller(samples: Sequence[Sample], axes: Axes) -> Iterator[Sample]:
    for number, size in enumerate(_SIZES):
        sample = samples[number % len(samples)]
        cut = {
            name: array[tuple(slice(size if axis in axes.get(name, ()) else None) for axis in range(array.ndim))]
            for name, array in sample.items()
        }
        if any(cut[name].shape != array.shape for name, array in sample.items()):
            yield cut
