"""Arrays that stay where they are until rows of them are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.run.resources import current_resources

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LazyArray:
    """An array of known shape and type, of which ``read`` returns the rows from one number to another.

    ``is_flat`` says that a row is a list of numbers because a table has no other form, whatever shape they are of;
    ``where`` is the file that it is in.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], Array]
    is_flat: bool = False
    where: str | None = None

    @property
    def ndim(self) -> int:
        """Count the dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        stop = max(start, stop)
        self._require_room(stop - start)
        return self.read(start, stop)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return self[:]

    def _require_room(self, rows: int) -> None:
        """Raise UsageError if so many rows would take more memory than a model may."""
        size, most = rows * math.prod(self.shape[1:]) * self.dtype.itemsize, current_resources().memory
        if size > most:
            raise UsageError(
                f"{rows} rows of shape {list(self.shape[1:])} take {size / 2**30:.3g} GiB at once, "
                f"more than the {most / 2**30:.3g} GiB of --memory-limit",
                where=self.where,
                hint="--dataset with a small --batch reads rows as it needs them",
            )

    def part(self, start: int, stop: int) -> LazyArray:
        """Return some of the rows, still unread."""

        def read(a: int, b: int) -> Array:
            return self.read(start + a, start + b)

        return replace(self, shape=(stop - start, *self.shape[1:]), read=read)

    def converted(self, convert: Callable[[Array], Array], dtype: np.dtype[Any]) -> LazyArray:
        """Return the same in another type; rows are converted when they are read."""

        def read(a: int, b: int) -> Array:
            return convert(self.read(a, b))

        return replace(self, dtype=dtype, read=read)

    def shaped(self, row: Sequence[int]) -> LazyArray:
        """Return the same with rows of another shape."""

        def read(a: int, b: int) -> Array:
            return self.read(a, b).reshape(b - a, *row)

        return replace(self, shape=(len(self), *row), read=read, is_flat=False)

    def holds(self, row: Sequence[object]) -> bool:
        """Return whether the list of numbers in each row is an array of this shape."""
        sizes = [size for size in row if isinstance(size, int)]
        return self.is_flat and len(sizes) == len(row) and math.prod(sizes) == math.prod(self.shape[1:])
