"""How a run is verified: with which data, how closely, how often, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import onnx_ir as ir

from onnx_passes.core.evidence import Finding
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits
from onnx_passes.verify.run.activations import LIMIT
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.generate import Sampling
from onnx_passes.verify.samples.sources import listed

Mode = Literal["every", "each", "final"]


@dataclass(eq=False, kw_only=True)
class Settings:
    """Settings of a verification.

    ``samples`` is how many inputs are generated: by default three or more, fewer where the model is slow, but for more
    ``effort``, a multiple of the usual cost. ``special`` says whether NaN, infinities, the largest and the smallest
    numbers are tried, too; by default that depends on the size of the model. ``sizes`` are those of dynamic
    dimensions in generated inputs. ``source`` returns the model that the run starts with, anew each time; without it
    a copy is kept. ``memory`` limits the values that are kept for local checks, ``require`` is a finding that the run
    must reach, or its text, ``prove`` whether rewrites are proved.
    """

    inputs: Sequence[Any] = ()
    expect: Sequence[Any] = ()
    seed: int = 0
    samples: int | None = None
    effort: float = 1.0
    special: bool | None = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    limits: Limits = DEFAULT
    mode: Mode = "each"
    executor: Executor = field(default_factory=Executor)
    reproducer: Path | None = None
    source: Callable[[], ir.Model] | None = None
    memory: int = LIMIT
    require: Finding | str | None = None
    prove: bool = True

    def __post_init__(self) -> None:
        # Nothing stands for the default, too.
        self.limits = self.limits or DEFAULT
        self.inputs, self.expect = listed(self.inputs), listed(self.expect)
        self.executor = self.executor or Executor()

    @property
    def sampling(self) -> Sampling:
        """Return how samples are generated."""
        return Sampling(self.seed, self.samples, self.special, self.sizes, self.effort)
