"""Read-only weights during a run: models share their tensors, and checks rely on them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import onnx_ir as ir


class FrozenWeights:
    """Arrays that are read-only for a while.

    A pass that writes into one gets an error at that line. Arrays that were writable are writable again after the run.
    """

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []

    def freeze(self, tensors: Iterable[ir.TensorProtocol | None]) -> None:
        """Make the arrays of tensors read-only, if they are arrays in memory."""
        for tensor in tensors:
            array = cast(object, tensor.raw) if isinstance(tensor, ir.Tensor) else None  # pyright: ignore[reportUnknownMemberType]
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array.flags.writeable = False
                self._arrays.append(cast("np.ndarray[Any, Any]", array))

    def thaw(self) -> None:
        """Make the arrays writable again, an array before its views."""
        waiting, self._arrays = self._arrays, []
        while waiting:
            refused = [array for array in waiting if not _is_writable_again(array)]
            if len(refused) == len(waiting):
                return
            waiting = refused


def is_write_to_frozen(error: BaseException) -> bool:
    """Return whether an error is numpy's error for writing to a read-only array."""
    return isinstance(error, ValueError) and str(error).endswith("is read-only")


def _is_writable_again(array: np.ndarray[Any, Any]) -> bool:
    try:
        array.flags.writeable = True
    except ValueError:
        return False
    return True


@contextmanager
def frozen_weights(model: ir.Model) -> Generator[FrozenWeights]:
    """Freeze the weights of a model inside the block."""
    weights = FrozenWeights()
    weights.freeze(_tensors(model))
    try:
        yield weights
    finally:
        weights.thaw()


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol | None]:
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield from _in_graph(graph)


def _in_graph(graph: ir.Graph) -> Iterator[ir.TensorProtocol | None]:
    yield from (value.const_value for value in graph.initializers.values())
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.is_ref():
                continue
            if attribute.type is ir.AttributeType.TENSOR:
                # `as_tensor` checks every member of the protocol on each call.
                yield attribute.value
            elif attribute.type is ir.AttributeType.GRAPH:
                yield from _in_graph(attribute.as_graph())
            elif attribute.type is ir.AttributeType.GRAPHS:
                for inner in attribute.as_graphs():
                    yield from _in_graph(inner)
