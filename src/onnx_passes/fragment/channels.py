"""Channels: an elementwise fragment whose constants vary along axes computes a function for each place there."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np


class ByChannel(ABC):
    """Functions of single elements, one for each channel; channels are numbered in the order of the ``axes``.

    ``axes`` are those of the tensor that is read, with their sizes, along which constants vary.
    """

    axes: dict[int, int]

    @property
    @abstractmethod
    def rank(self) -> int:
        """Return the number of axes of the tensor that is read."""

    @property
    def channels(self) -> int:
        """Return the number of different functions."""
        return math.prod(self.axes.values())

    @property
    def layout(self) -> tuple[int, ...]:
        """Return the shape of the channels, of the rank of the tensor."""
        return tuple(self.axes.get(axis, 1) for axis in range(self.rank))

    @property
    def free(self) -> int | None:
        """Return an axis along which constants do not vary."""
        return next((axis for axis in range(self.rank) if axis not in self.axes), None)

    def laid(self, points: np.ndarray) -> np.ndarray:
        """Give points of shape ``[channels, n]`` the rank of the tensor, one behind the other along the free axis."""
        assert self.free is not None
        return np.moveaxis(points.reshape(*self.layout, -1), -1, self.free).squeeze(self.free + 1)

    def unlaid(self, array: np.ndarray) -> np.ndarray:
        """Return the elements of a result by channel, in the shape ``[channels, n]``."""
        assert self.free is not None
        return np.moveaxis(np.expand_dims(array, self.free + 1), self.free, -1).reshape(self.channels, -1)
