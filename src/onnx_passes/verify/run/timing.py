"""How long ONNX Runtime takes for models as it runs them by default: optimized, here on one thread.

What is counted is the processor time of the thread that runs a model, which other processes hardly change, and models
that are compared take turns, so that what disturbs one disturbs all.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.verify.run.child import Child
from onnx_passes.verify.run.execute import Executor, Sample, must_be_apart
from onnx_passes.verify.run.resources import ended_after, memory_limited

SECONDS = 1.0
"""How long each model is run, unless told otherwise."""
_LEAST, _MOST = 5, 500
_PROFILED = 5


@dataclass(frozen=True)
class Timing:
    """Seconds for one inference: the least, and the median, of so many runs."""

    least: float
    median: float
    runs: int


class TimedModel:
    """A model ready to be timed on one sample. Raises ExecutionError if ONNX Runtime does not take it."""

    def __init__(self, model: ir.Model, sample: Sample, executor: Executor | None = None) -> None:
        given = executor or Executor()
        self._executor = Executor(
            replace(given.profile, optimized=True, round_halves=False), given.functions, given.resources
        )
        self._model, self._sample = model, sample
        packed, make = self._executor.session_of(model, feeds=sample)
        self._packed = packed
        feeds = dict(packed.boundary.inward(name, array) for name, array in sample.items())
        with self._executor.explaining(model):
            if must_be_apart(model):
                # A process sends a result for each name that it is asked for: the one here is the time.
                child = Child(lambda: (self._timed(make(), feeds), None), self._executor.resources)
                self._run: Callable[[], Any] = lambda: child.run(["seconds"], {})[0]
            else:
                timed = self._timed(make(), feeds)
                self._run = lambda: timed([], {})[0]

    def run(self) -> float:
        """Run the model once, and return the seconds of processor time that it took."""
        with self._executor.explaining(self._model):
            return float(self._run())

    def _timed(self, session: Any, feeds: dict[str, Any]) -> Callable[[Sequence[str], dict[str, Any]], list[Any]]:
        import onnxruntime

        resources = self._executor.resources

        def run(names: Sequence[str], nothing: dict[str, Any]) -> list[Any]:
            options = cast("Any", onnxruntime).RunOptions()
            with memory_limited(resources.memory), ended_after(resources.seconds, options):
                started = time.thread_time()
                session.run(None, feeds, options)
                return [time.thread_time() - started]

        return run

    def operators(self) -> Counter[str]:
        """Return the share of time of each operator, as ONNX Runtime executes the model; none if it may crash."""
        if must_be_apart(self._model):
            return Counter()
        with tempfile.TemporaryDirectory() as folder, self._executor.explaining(self._model):
            packed, make = self._executor.session_of(
                self._model,
                feeds=self._sample,
                enable_profiling=True,
                profile_file_prefix=str(Path(folder) / "profile"),
            )
            session = make()
            feeds = dict(packed.boundary.inward(name, array) for name, array in self._sample.items())
            for _ in range(_PROFILED):
                session.run(None, feeds)
            events = json.loads(Path(session.end_profiling()).read_bytes())
        spent: Counter[str] = Counter()
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                spent[event["args"]["op_name"]] += event["dur"]
        total = spent.total() or 1
        return Counter({name: duration / total for name, duration in spent.most_common()})


def time_in_turns(models: Sequence[TimedModel], seconds: float = SECONDS) -> list[Timing]:
    """Time models turn by turn, each for so many seconds; the first runs, which allocate memory, do not count."""
    for model in models:
        model.run()
    runs: list[list[float]] = [[] for _ in models]
    spent = 0.0
    while len(runs[0]) < _LEAST or (spent < seconds * len(models) and len(runs[0]) < _MOST):
        for model, taken in zip(models, runs, strict=True):
            taken.append(model.run())
            spent += taken[-1]
    return [Timing(min(taken), statistics.median(taken), len(taken)) for taken in runs]
