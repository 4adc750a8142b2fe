"""Sequences of passes as version 0.4 declared them."""

from __future__ import annotations

from typing import Any

from onnx_passes.core import compose
from onnx_passes.legacy.base import Pass


class ComposePass(Pass, compose.ComposePass):
    """Sequence of the passes in ``__passes__``, names or classes; ``__exhaustive__`` repeats it to a fixpoint."""

    __passes__ = ()
    __exhaustive__ = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        cls.kind = "sequence"
        if "__passes__" in cls.__dict__:
            cls.passes = tuple(cls.__passes__)
        if "__exhaustive__" in cls.__dict__:
            cls.exhaustive = bool(cls.__exhaustive__)
        super().__init_subclass__(**kwargs)
