"""Models in which levels are not chosen but given, to see what lies behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
        dtype = ir.TensorType(ir.DataType.from_numpy(run[name].dtype))
        # Some operators are lowered by the sizes that their input is declared to have.
        fed = ir.Value(name=name + _FORCED, type=dtype, shape=_declared_shape(value, run[name].shape))
        copied.graph.inputs.append(fed)
        for user, index in value.uses():
            user.replace_input_with(index, fed)
    return copied


def _declared_shape(value: ir.Value, found: tuple[int, ...]) -> ir.Shape | None:
    """Return the declared shape of a value, unless an array of it has another."""
    if value.shape is None or len(value.shape) != len(found):
        return None
    dims = list(value.shape)
    agrees = all(not isinstance(dim, int) or dim == size for dim, size in zip(dims, found, strict=True))
    return ir.Shape(dims) if agrees else None


def given(levels: Sample) -> Sample:
    """Return levels as they are fed to a model to which they are given."""
    return {name + _FORCED: array for name, array in levels.items()}


class Forced:
    """A model run with ``levels`` given, for ``wanted`` values; ``run`` has arrays of their types."""

    def __init__(
        self,
        model: ir.Model,
        levels: Iterable[ir.Value],
        run: Sample,
        wanted: Iterable[ir.Value],
        executor: Executor,
    ) -> None:
        self._names = list(dict.fromkeys(str(value.name) for value in levels))
        computed = computed_values(model)
        self._model = with_given_levels(model, {name: computed[name] for name in self._names}, run)
        self._values = computed_values(self._model)
        names = dict.fromkeys(str(value.name) for value in wanted)
        also = [self._values[name] for name in names if name in self._values]
        self._ready = executor.prepare(self._model, also=also, engine="onnxruntime")

    def fed(self, sample: Sample, levels: Sample) -> Sample:
        """Return a sample with the levels that are given."""
        return sample | given({name: levels[name] for name in self._names})

    def run(self, sample: Sample, levels: Sample) -> Sample:
        """Run on a sample and levels, of which others than those given may be among."""
        return self._ready.run(self.fed(sample, levels))

    def copied(self, names: Iterable[str]) -> tuple[ir.Model, list[ir.Value]]:
        """Copy the model that is run; returns it, and its computed values of these names."""
        copied = copy_model(self._model)
        values = computed_values(copied)
        return copied, [values[name] for name in names if name in values]

    def levels_before(self, node: ir.Node) -> list[str]:
        """Name the given levels that a node is computed from, but for those behind which others are given."""
        before = names_before(self._values[str(node.outputs[0].name)])
        return [name for name in self._names if name + _FORCED in before]


def names_before(value: ir.Value) -> frozenset[str]:
    """Name all values that one is computed from."""
    found, waiting = set[ir.Value](), [value]
    while waiting:
        producer = waiting.pop().producer()
        new = [v for v in (() if producer is None else producer.inputs) if v is not None and v not in found]
        found.update(new)
        waiting.extend(new)
    return frozenset(str(each.name) for each in found)
