"""Fix the sizes of dynamic dimensions of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError, UsageError, did_you_mean
from onnx_passes.core.options import named_by_user
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.extents import size_of, symbols_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

Size = int | None
_OPEN = ("?", "-", "-1")
"""Texts for a size that is not changed."""


@passes.verify.equality
@passes.register(tags=("interface", "shapes"))
class FixShapes(EditorPass):
    """Fix dynamic dimensions to a size: all of one name, or those of an input.

    Rewrites: with ``batch=1`` the input ``x: float[batch,3,H,W]`` → ``x: float[1,3,H,W]``, and likewise all other
              occurrences of the name; with ``x=[1, 3, 224, 224]`` the shape of one input, where ``?`` keeps a size.
              Shapes are inferred again.
    Refuses:  names of neither a dimension nor an input, two sizes for one dimension, another size for a fixed one,
              lists whose length is not the rank of the input.
    Exactness: bit-exact, for inputs of these sizes.
    """

    followed_by = ("shape-inference",)

    sizes: Mapping[str, object] = named_by_user("dimension or input, and its size or list of sizes")

    def __post_init__(self) -> None:
        for name, given in self.sizes.items():
            _parse(name, given)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Determine the size of each dimension, then set it everywhere."""
        inputs = {str(value.name): value for value in model.graph.inputs}
        named: dict[str, int] = {}
        shapes: dict[ir.Value, list[Size]] = {}
        for name, given in self.sizes.items():
            sizes = _parse(name, given)
            if isinstance(sizes, int):
                _require_dimension(name, inputs)
                _settle(named, name, sizes)
            else:
                shapes[_input(name, inputs)] = sizes
        for value, sizes in shapes.items():
            for name, size in _dimensions(value, sizes):
                _settle(named, name, size)
        changed = {value: shape for value in _values(model) if (shape := _fixed(value, named, shapes.get(value)))}

        def put() -> None:
            for value, shape in changed.items():
                value.shape = shape

        if changed:
            editor.change("sizes of dimensions", (), put)

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data unchanged; raise UsageError if they have other sizes."""
        for name, given in self.sizes.items():
            sizes = _parse(name, given)
            if name in sample and not isinstance(sizes, int) and not _fits(sample[name].shape, sizes):
                raise UsageError(f"data of shape {list(sample[name].shape)} do not fit {name}={given}")
        return dict(sample)

    def inputs_before(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data unchanged."""
        return dict(sample)

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results unchanged."""
        return dict(results)


def _parse(name: str, given: object) -> int | list[Size]:
    """Parse a size, or the sizes of an input."""
    if name.strip() in _OPEN:
        raise OptionError(
            f"'{name}' is not the name of a dimension: it denotes a different dimension each time",
            hint="give the shape of the input, as x=[1, 3, 224, 224]",
        )
    if isinstance(given, list | tuple):
        return [None if str(size).strip() in _OPEN else _size(name, size) for size in cast("Sequence[object]", given)]
    return _size(name, given)


def _size(name: str, given: object) -> int:
    text = str(given).strip()
    if not text.isdecimal():
        raise OptionError(
            f"'{text}' is not a size of '{name}'", hint="write a whole number, or a list of them as in x=[1, 3, ?, ?]"
        )
    return int(text)


def _input(name: str, inputs: Mapping[str, ir.Value]) -> ir.Value:
    if name not in inputs:
        hint = did_you_mean(name, inputs) or f"inputs: {', '.join(inputs)}"
        raise PassFailedError(f"the model has no input '{name}'", hint=hint)
    return inputs[name]


def _require_dimension(name: str, inputs: Mapping[str, ir.Value]) -> None:
    dims = (dim for value in inputs.values() for dim in value.shape or ())
    known = dict.fromkeys(symbol for dim in dims for symbol in sorted(symbols_of(dim)))
    if name not in known:
        some = f"dimensions: {', '.join(known)}" if known else "it has no dynamic dimension with a name"
        raise PassFailedError(
            f"no input has a dimension '{name}'",
            hint=did_you_mean(name, known) or f"{some}; the shape of an input is fixed by {_example(inputs)}",
        )


def _example(inputs: Mapping[str, ir.Value]) -> str:
    name, value = next(iter(inputs.items()), ("x", None))
    rank = 2 if value is None or value.shape is None else len(value.shape)
    return f"{name}=[{', '.join('1' for _ in range(rank))}]"


def _settle(named: dict[str, int], name: str, size: int) -> None:
    if named.setdefault(name, size) != size:
        raise PassFailedError(f"dimension '{name}' cannot be both {named[name]} and {size}", hint="give it one size")


def _dimensions(value: ir.Value, sizes: Sequence[Size]) -> Iterator[tuple[str, int]]:
    """Yield the named dimensions of an input with their sizes; refuse sizes that do not match."""
    if value.shape is None:
        return
    if len(value.shape) != len(sizes):
        raise PassFailedError(
            f"input '{value.name}' has {len(value.shape)} axes {value.shape}, {len(sizes)} sizes are given",
            hint="write ? for a size that stays",
        )
    for dim, size in zip(value.shape, sizes, strict=True):
        if size is None or dim == size:
            continue
        if isinstance(dim, int) and dim >= 0:
            raise PassFailedError(f"input '{value.name}' is declared as {value.shape}: {dim} cannot become {size}")
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None and symbols_of(dim) == {dim.value}:
            yield dim.value, size


def _values(model: ir.Model) -> Iterator[ir.Value]:
    """Iterate over all values with shapes; functions have none."""
    for graph in (model.graph, *all_graphs(model.graph)):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


def _fixed(value: ir.Value, named: Mapping[str, int], sizes: Sequence[Size] | None) -> ir.Shape | None:
    """Return the new shape of a value with sizes instead of names; None if it stays."""
    if value.shape is None:
        return None if sizes is None else ir.Shape([ir.SymbolicDim(None) if size is None else size for size in sizes])
    dims = [size_of(dim, named) for dim in value.shape]
    if sizes is not None:
        dims = [dim if size is None else size for dim, size in zip(dims, sizes, strict=True)]
    if dims == list(value.shape):
        return None
    return ir.Shape(dims, denotations=[value.shape.get_denotation(axis) for axis in range(len(dims))])


def _fits(shape: Sequence[int], sizes: Sequence[Size]) -> bool:
    return len(shape) == len(sizes) and all(size in (None, found) for found, size in zip(shape, sizes, strict=True))
