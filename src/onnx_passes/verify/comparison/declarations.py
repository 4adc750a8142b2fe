"""Declared inputs and outputs of a model, which passes keep or change on purpose, and data that follow the changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context, PassResult
from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.ulp import Array
from onnx_passes.verify.run.execute import Sample
from onnx_passes.verify.samples.dataset import Batch
from onnx_passes.verify.structure.properties import bad_reads

Dimensions = tuple[int | None, ...] | None


@runtime_checkable
class ChangesInterface(Protocol):
    """A pass that changes inputs or outputs on purpose, and says how data for one model become data for the other."""

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return inputs for the model before as the model after takes them."""
        ...

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return results of the model before as the model after returns them."""
        ...


@runtime_checkable
class RenamesInterface(ChangesInterface, Protocol):
    """A pass after which inputs and outputs have other names."""

    @property
    def renamed(self) -> Mapping[str, str]:
        """Return the new names by the old ones."""
        ...


@runtime_checkable
class ShowsInside(ChangesInterface, Protocol):
    """A pass after which values inside a model are inputs or outputs of it: data have these beside what they had."""

    def values_inside(self, model: ir.Model) -> Sequence[ir.Value]:
        """Return the values of the model before it that will be seen; names that it will refuse are left out."""
        ...


@runtime_checkable
class RestrictsInputs(ChangesInterface, Protocol):
    """A pass after which a model takes less than before: fixed sizes, or integers alone."""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Restrict the inputs of a model."""
        ...

    def inputs_before(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return inputs for the model after as the model before takes them."""
        ...


@dataclass(frozen=True)
class DeclaredInput:
    """An input as declared; dynamic dimensions are ``None``, an unknown shape is."""

    name: str
    dtype: ir.DataType | None
    shape: Dimensions
    has_default: bool

    def __str__(self) -> str:
        sizes = "" if self.shape is None else ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype or '?'}[{sizes}]"


@dataclass(frozen=True)
class Output:
    """The shape of an output as declared, and as people read it."""

    name: str
    shape: Dimensions
    text: str


@dataclass
class Declared:
    """What a model declared when it came; what was wrong then already is excused."""

    inputs: tuple[DeclaredInput, ...]
    outputs: tuple[Output, ...]
    is_sorted: bool
    excused: frozenset[str] = frozenset()

    @classmethod
    def by(cls, model: ir.Model) -> Declared:
        """Take down what a model declares."""
        return cls(inputs_of(model), outputs_of(model), not out_of_order(model.graph))

    def excuse(self, results: Mapping[str, np.ndarray]) -> None:
        """Excuse outputs that never were as declared."""
        self.excused = frozenset(wrong_outputs(self.outputs, results))

    def broken_by(self, model: ir.Model, results: Mapping[str, np.ndarray]) -> str:
        """Say what a model declares that it did not, or that is not true; nothing if all is well."""
        problem = changed_inputs(self.inputs, inputs_of(model))
        if not problem:
            wrong = wrong_outputs(outputs_of(model), results)
            problem = next((text for name, text in wrong.items() if name not in self.excused), "")
        return problem or (out_of_order(model.graph) if self.is_sorted else "")


def inputs_of(model: ir.Model) -> tuple[DeclaredInput, ...]:
    """List the inputs of a model in order."""
    return tuple(
        DeclaredInput(v.name or "", v.dtype, _dimensions(v.shape), v.is_initializer()) for v in model.graph.inputs
    )


def changed_inputs(before: tuple[DeclaredInput, ...], after: tuple[DeclaredInput, ...]) -> str:
    """Say how inputs are not as they were; those with a default may go, and what was unknown may become known."""
    now = {given.name for given in after}
    expected = [given for given in before if given.name in now or not given.has_default]
    if [given.name for given in expected] != [given.name for given in after]:
        return f"inputs are {_names(after)}, expected {_names(tuple(expected))}"
    for old, new in zip(expected, after, strict=True):
        if old.dtype is not None and old.dtype != new.dtype:
            return f"input {new} was declared as {old}"
        if old.shape is not None and (new.shape is None or old.shape != new.shape):
            return f"input {new} was declared as {old}"
    return ""


def outputs_of(model: ir.Model) -> tuple[Output, ...]:
    """List the outputs of a model in order."""
    return tuple(
        Output(v.name or "", _dimensions(v.shape), "" if v.shape is None else str(v.shape)) for v in model.graph.outputs
    )


def wrong_outputs(outputs: Sequence[Output], results: Mapping[str, object]) -> dict[str, str]:
    """Return which results are not as outputs are declared, by name; sequences have no declared shape."""
    wrong: dict[str, str] = {}
    for output in outputs:
        found = cast("Any", results.get(output.name))
        if hasattr(found, "shape") and not _fits(output.shape, found.shape):
            has = f"has the shape {list(found.shape)}"
            wrong[output.name] = f"output {output.name} is declared as {output.text}, but {has}"
    return wrong


def wrong_annotation(graph: ir.Graph, computed: Callable[[ir.Value], Sequence[np.ndarray] | None]) -> str:
    """Name the first value of a graph whose type or shape is not as annotated."""
    for node in graph:
        for value in node.outputs:
            for array in computed(value) or ():
                if not _fits(_dimensions(value.shape), array.shape):
                    return f"{value.name} is annotated with the shape {value.shape}, but has {list(array.shape)}"
                if value.dtype is not None and value.dtype.numpy() != array.dtype:
                    return f"{value.name} is annotated as {value.dtype}, but is {array.dtype}"
    return ""


def out_of_order(graph: ir.Graph) -> str:
    """Name the first node, in the graph or a subgraph, that stands before one whose result it reads."""
    for reader, value, is_late in bad_reads(graph):
        producer = value.producer()
        if is_late and producer is not None and isinstance(reader, ir.Node):
            return f"{_text(reader)} stands before {_text(producer)}, whose result it reads"
    return ""


def _text(node: ir.Node) -> str:
    return f"{node.op_type} '{node.name or node.outputs[0].name}'"


def _fits(declared: Dimensions, actual: tuple[int, ...]) -> bool:
    if declared is None:
        return True
    return len(declared) == len(actual) and all(d in (None, a) for d, a in zip(declared, actual, strict=True))


def _dimensions(shape: ir.Shape | None) -> Dimensions:
    return None if shape is None else tuple(size if isinstance(size, int) and size >= 0 else None for size in shape)


def _names(inputs: tuple[DeclaredInput, ...]) -> str:
    return ", ".join(given.name for given in inputs) or "none"


@dataclass(frozen=True)
class InterfaceHistory:
    """The outputs that a model had, and what passes did to inputs and outputs since."""

    outputs: tuple[str, ...] = ()
    changes: tuple[ChangesInterface, ...] = ()

    def then(self, change: ChangesInterface) -> InterfaceHistory:
        """Return the history with one more change."""
        return replace(self, changes=(*self.changes, change))

    def as_taken_now(self, batch: Batch) -> Batch:
        """Give inputs the form that they have now."""
        inputs = batch.inputs
        for change in self.changes:
            inputs = change.inputs_after(inputs)
        return replace(batch, inputs=inputs)

    def left(self, expected: Sample, found: Sample) -> list[str]:
        """Return the outputs of which something is expected; only a pass that says so may have taken some away."""
        may_drop = any(isinstance(change, ShowsInside) for change in self.changes)
        left = [output for output in expected if output in found or not may_drop]
        for output in left if left else expected:
            if output not in found:
                raise UsageError(f"there is no output '{output}'")
        return left

    def under_old_names(self, found: Sample) -> Sample:
        """Return results of outputs that the original has, too, under the names that they have there."""
        named = {output: output for output in self.outputs}
        for change in self.changes:
            renamed: Mapping[str, str] = change.renamed if isinstance(change, RenamesInterface) else {}
            named = {old: renamed.get(now, now) for old, now in named.items()}
        return {old: found[now] for old, now in named.items() if now in found}

    def as_returned_now(self, name: str, expected: Array, found: Array) -> Array:
        """Give what is expected of an output the form that it has now; labels have none."""
        if expected.ndim == found.ndim:
            for change in self.changes:
                ((name, expected),) = change.outputs_after({name: expected}).items()
        return expected
