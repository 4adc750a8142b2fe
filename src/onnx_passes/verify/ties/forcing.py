"""Models in which levels are not chosen but given, to see what lies behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.run.execute import Executor, Sample

_FORCED = "//level"


def computed_values(model: ir.Model) -> dict[str, ir.Value]:
    """Return the values that nodes of the graph compute, by name."""
    return {str(value.name): value for node in model.graph for value in node.outputs}


def with_given_levels(model: ir.Model, values: Mapping[str, ir.Value], run: Sample) -> ir.Model:
    """Copy a model, and let what reads given values read inputs instead; ``run`` has arrays of their type."""
    copied = copy_model(model)
    computed = computed_values(copied)
    for name, original in values.items():
        value = computed[str(original.name)]
        fed = ir.Value(name=name + _FORCED, type=ir.TensorType(ir.DataType.from_numpy(run[name].dtype)))
        copied.graph.inputs.append(fed)
        for user, index in value.uses():
            user.replace_input_with(index, fed)
    return copied


def given(levels: Sample) -> Sample:
    """Return levels as they are fed to a model to which they are given."""
    return {name + _FORCED: array for name, array in levels.items()}


class BehindLevels:
    """What a model makes of levels: ``wanted`` values behind those named in ``levels``."""

    def __init__(
        self, model: ir.Model, levels: Sequence[str], wanted: Sequence[ir.Value], run: Sample, executor: Executor
    ) -> None:
        self._levels, self._wanted = levels, [str(value.name) for value in wanted]
        computed = computed_values(model)
        copied = with_given_levels(model, {name: computed[name] for name in levels}, run)
        found = computed_values(copied)
        self._ready = executor.prepare(copied, also=[found[name] for name in self._wanted], engine="onnxruntime")

    def between(self, sample: Sample, low: Sample, high: Sample) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the least and the greatest of what comes of the least and of the greatest levels, by name."""
        runs = [self._ready.run(sample | given({name: side[name] for name in self._levels})) for side in (low, high)]
        return {name: (np.minimum(*sides), np.maximum(*sides)) for name in self._wanted if (sides := _both(runs, name))}


def _both(runs: Sequence[Sample], name: str) -> tuple[np.ndarray, np.ndarray]:
    return runs[0][name], runs[1][name]
