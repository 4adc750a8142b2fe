"""Execution: one fixed ONNX Runtime profile for both sides of every comparison, weights handed over, not copied."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Collection, Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ExitCode, ModelError, OnnxPassesError, UsageError, did_you_mean
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.encode import Written
from onnx_passes.graph.functions import MOST_NODES, expanded_size
from onnx_passes.graph.load import root_cause
from onnx_passes.graph.serialise import serialise
from onnx_passes.ops.describe import expand_nodes, uses_custom_operators
from onnx_passes.ops.facts.risks import may_crash
from onnx_passes.verify.run.child import Child, DiedError, Run, can_fork, with_maps_as_arrays
from onnx_passes.verify.run.element_types import with_rounded_halves, with_shapes, with_wide_bfloats
from onnx_passes.verify.run.pack import WEIGHTS, Key, Packed, missing_functions, pack
from onnx_passes.verify.run.resources import (
    Pace,
    Resources,
    current_resources,
    is_memory_error,
    memory_limited,
    other_threads,
    private_bytes,
)
from onnx_passes.verify.run.server import Profile, Recipe
from onnx_passes.verify.run.sessions import Footprint, InChild, InProcess, Shape, Weights, footprint

Engine = Literal["onnxruntime", "reference"]
Sample = dict[str, np.ndarray]
"""Arrays by the name of the input or output of the model that they belong to."""

LARGE = 1 / 8
"""A model that may take more than this part of the limit of memory runs in a process of its own."""
_LITTLE = 2**27
"""What this process takes in any case, such as modules that it imports late, does not count."""
_NOT_IN_NUMPY = {f"tensor({name})" for name in ("bfloat16", "float8e4m3fn", "float8e5m2", "int4", "uint4")}
_NOT_IMPLEMENTED = re.compile(r"Could not find an implementation for (\w+)\((\d+)\)")
_ENDED = "terminate flag"
_NOT_REGISTERED = re.compile(r"([\w.]*):?(\w+)\(-?\d+\) is not a registered function/op")


class ExecutionError(OnnxPassesError):
    """A model cannot be executed."""

    exit_code = ExitCode.USAGE


class MemoryLimitError(ExecutionError):
    """A model takes more memory than it may."""


class TimeLimitError(ExecutionError):
    """A model takes more time than it may, and would again."""


class Executor:
    """Prepares models for execution; remembers weights, so that versions of a model share them.

    ``protected`` says that this process may crash, so that no model needs one of its own.
    """

    def __init__(
        self,
        profile: Profile | None = None,
        functions: Sequence[Any] = (),
        resources: Resources | None = None,
        *,
        protected: bool = False,
    ) -> None:
        self._protected = protected
        self.profile = profile or Profile()
        self.resources = resources or current_resources()
        self.functions = tuple(functions)
        self.weights = Weights()
        self._written: dict[frozenset[ir.OperatorIdentifier], Written] = {}
        self._began_with = private_bytes()

    def prepare(
        self,
        model: ir.Model,
        *,
        also: Collection[ir.Value] = (),
        engine: Engine | None = None,
        feeds: Collection[str] | None = None,
    ) -> Executable:
        """Make a model executable; ``also`` names interior values wanted as outputs.

        ONNX Runtime runs it or, where it cannot and no engine was asked for, onnx's reference evaluator. Of inputs
        with a default only those can be fed that ``feeds`` names, if it is given. A model that may crash is run in a
        process of its own; every run is limited in time and memory.
        """
        _require_names(model.graph, set())
        _require_finite(model)
        if engine == "reference":
            return self._with_reference(model, also)
        try:
            return self._with_onnxruntime(model, also, feeds)
        except MemoryLimitError:
            # The other engine takes more.
            raise
        except ExecutionError as error:
            if engine == "onnxruntime":
                raise
            try:
                second = self._with_reference(model, also)
            except ExecutionError:
                raise error from None
            second.obstacle = str(error)
            return second

    def key(self, model: ir.Model, feeds: Collection[str] | None = None) -> Key:
        """Return what decides about results: models of one key are the same to ONNX Runtime."""
        return self.packed(model, feeds=feeds).key

    def packed(self, model: ir.Model, also: Collection[ir.Value] = (), feeds: Collection[str] | None = None) -> Packed:
        """Pack a model for ONNX Runtime."""
        executed = with_wide_bfloats(with_rounded_halves(model) if self.profile.round_halves else model)
        outputs = _outputs(model, also)
        try:
            return pack(executed, outputs, self.functions, self.weights.handed, feeds, self._written)
        except ModelError:
            # Some operators are lowered by sizes that nobody has inferred since a rewrite put them in.
            return pack(with_shapes(executed), outputs, self.functions, self.weights.handed, feeds, self._written)
        except ir.serde.SerdeError as error:
            raise ExecutionError(f"the model cannot be serialised: {root_cause(error)}") from error

    def _with_onnxruntime(
        self, model: ir.Model, also: Collection[ir.Value], feeds: Collection[str] | None
    ) -> Executable:
        packed, recipe = self.session_of(model, also, feeds)
        size = footprint(model, packed.weight_bytes)
        with self.explaining(model):
            made = _OnnxRuntime(self._engine(model, packed, recipe, size), packed)
        made.share = size.bytes / self.resources.memory
        return made

    def _engine(self, model: ir.Model, packed: Packed, recipe: Recipe, size: Footprint) -> InProcess | InChild:
        """Choose where a model runs: apart if it may end this process, is large or, beside threads, may be."""
        if self._protected or not can_fork():
            return InProcess(recipe, self.resources)
        large = size.bytes > LARGE * self.resources.memory
        if not large and (size.is_known or not other_threads()) and not may_crash(model):
            return InProcess(recipe, self.resources)
        weights = model.graph.initializers.values()
        tensors = {value.name: value.const_value for value in weights if value.const_value is not None}
        return InChild(
            recipe,
            self.resources,
            lambda: {name: self.weights.place(tensors[name]) for name in packed.handed},
            large=large,
            spent=lambda: size.weights + self._grown(),
        )

    def _grown(self) -> int:
        """Return the bytes that this process took since; beside threads they may be another's, and half is left."""
        return min(max(private_bytes() - self._began_with - _LITTLE, 0), self.resources.memory // 2)

    def session_of(
        self,
        model: ir.Model,
        also: Collection[ir.Value] = (),
        feeds: Collection[str] | None = None,
        **options: object,
    ) -> tuple[Packed, Recipe]:
        """Pack a model, and return what makes a session of it; ``options`` are further options of sessions."""
        packed = self.packed(model, also, feeds)
        return packed, self.session_maker(packed.content, packed.handed, options)

    def ready(self, packed: Packed, *, apart: bool) -> Executable:
        """Make what another process has packed executable, in a process of its own if it has to be ``apart``."""
        try:
            with memory_limited(self.resources.memory):
                engine = InChild if apart else InProcess
                return _OnnxRuntime(engine(self.session_maker(packed.content, packed.handed), self.resources), packed)
        except Exception as error:
            what = ExecutionError(f"the model cannot be executed: {_first_line(error)}")
            raise _fatal(error, self.resources) or what from error

    def session_maker(
        self, content: bytes, handed: Mapping[str, Any], options: Mapping[str, object] | None = None
    ) -> Recipe:
        """Return what makes a session of a serialised model and the weights that are handed over, by name."""
        import onnxruntime

        self._require_providers(onnxruntime)
        return Recipe(content, handed, self.profile, self._folder if handed else "", options or {}, self)

    @contextlib.contextmanager
    def explaining(self, model: ir.Model) -> Generator[None]:
        """Say what is wrong where a model cannot be made ready, within the limits of memory."""
        try:
            with memory_limited(self.resources.memory):
                yield
        except Exception as error:
            raise _fatal(error, self.resources) or _explain(error, model) from error

    def _with_reference(self, model: ir.Model, also: Collection[ir.Value]) -> Executable:
        import onnx
        from onnx.reference import ReferenceEvaluator

        wanted = [name for name, _ in _outputs(model, also)]
        if uses_custom_operators(model.graph):
            model = model.clone()
            expand_nodes(model)
        proto = serialise(model, lambda _, tensor: tensor, "execution")
        used = {(node.domain, node.op_type) for node in proto.graph.node}
        proto.functions.extend(missing_functions(used, proto.functions, self.functions))
        declared = {value.name for value in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in declared)
        try:
            return _Reference(ReferenceEvaluator(proto), wanted, self.resources, apart=must_be_apart(model))
        except Exception as error:
            raise _explain(error, model) from error

    def _require_providers(self, onnxruntime: Any) -> None:
        """Refuse providers that are not there: ONNX Runtime would print something and take another one."""
        available = cast(list[str], onnxruntime.get_available_providers())
        for provider in self.profile.providers:
            if provider not in available:
                raise UsageError(
                    f"ONNX Runtime has no provider '{provider}' here",
                    hint=did_you_mean(provider, available) or f"it has {', '.join(available)}",
                )

    @cached_property
    def _folder(self) -> str:
        """ONNX Runtime insists that a file of weights exists, even where it never reads it."""
        folder = tempfile.mkdtemp(prefix="onnx-passes-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        (Path(folder) / WEIGHTS).touch()
        return folder


class Executable:
    """A model ready to run.

    ``key`` is what decides about results, ``obstacle`` says why ONNX Runtime cannot run the model, if so. ``share`` is
    the part of the memory limit that a run may take, as far as shapes tell it.
    """

    engine: Engine
    obstacle: str = ""
    key: Key | None = None
    share: float = 0.0

    def clock(self) -> float:
        """Return the seconds that count for runs: of processor time, where they are of this thread."""
        return time.thread_time()

    def run(self, sample: Sample, only: Sequence[str] | None = None) -> Sample:
        """Run on one sample; returns all outputs by name, in order, or those asked for."""
        raise NotImplementedError

    def run_each(
        self, samples: Sequence[Sample], *, all_must_run: bool, pace: Pace | None = None
    ) -> tuple[list[Sample], list[Sample]]:
        """Run on samples, as many as the pace allows; returns those that the model took, and its results.

        Raises ExecutionError if it took none.
        """
        taken: list[Sample] = []
        results: list[Sample] = []
        refusal: ExecutionError | None = None
        pace = pace or Pace()
        for number, sample in enumerate(samples, 1):
            if not pace.allows(sample, samples[number:]):
                break
            started = self.clock()
            try:
                results.append(self.run(sample))
                taken.append(sample)
                pace.took(sample, self.clock() - started)
            except ExecutionError as error:
                refusal = error
                if all_must_run or isinstance(error, TimeLimitError):
                    break
        if refusal is not None and (all_must_run or not taken):
            raise refusal
        return taken, results

    def shapes(self) -> dict[str, Shape]:
        """Return what is known beforehand of the shapes of outputs that are tensors."""
        return {}


class _OnnxRuntime(Executable):
    engine = "onnxruntime"

    def __init__(self, session: InProcess | InChild, packed: Packed) -> None:
        self._session = session
        self._boundary = packed.boundary
        self._weights = list(packed.handed.values())
        self.key = packed.key

    def run(self, sample: Sample, only: Sequence[str] | None = None) -> Sample:
        feeds = dict(self._boundary.inward(name, array) for name, array in sample.items())
        wanted = self._boundary.names if only is None else list(only)
        if not wanted:
            # ONNX Runtime takes no names for all names.
            return {}
        outside = self._boundary.outside
        try:
            arrays = self._session.run([outside[name] for name in wanted], feeds)
        except Exception as error:
            failed = ExecutionError(f"ONNX Runtime failed on the data: {_first_line(error)}")
            raise _fatal(error, self._session.resources) or failed from error
        return self._boundary.outward(wanted, arrays)

    def clock(self) -> float:
        return super().clock() if isinstance(self._session, InProcess) else time.perf_counter()

    def shapes(self) -> dict[str, Shape]:
        names = {outside: name for name, outside in self._boundary.outside.items()}
        return {
            names[name]: shape
            for name, kind, shape in self._session.outputs
            if kind.startswith("tensor(") and kind not in _NOT_IN_NUMPY
        }


class _Reference(Executable):
    engine = "reference"

    def __init__(self, evaluator: Any, names: list[str], resources: Resources, *, apart: bool) -> None:
        self._names = names
        self._resources = resources
        self._run: Run = Child(lambda: (evaluator.run, None), resources).run if apart else evaluator.run

    def run(self, sample: Sample, only: Sequence[str] | None = None) -> Sample:
        wanted = self._names if only is None else list(only)
        try:
            with np.errstate(all="ignore"), memory_limited(self._resources.memory):
                arrays = self._run(wanted, sample)
        except Exception as error:
            fatal = _fatal(error, self._resources)
            if fatal is not None:
                raise fatal from error
            what = f"onnx's reference evaluator failed on the data: {_first_line(error)}"
            raise ExecutionError(f"{self.obstacle}; {what}" if self.obstacle else what) from error
        named = with_maps_as_arrays(zip(wanted, arrays, strict=True))
        return {name: np.asarray(array) for name, array in named.items()}


def must_be_apart(model: ir.Model) -> bool:
    """Return whether a model has to run in a process of its own."""
    return may_crash(model) and can_fork()


def _fatal(error: Exception, resources: Resources) -> ExecutionError | None:
    """Say that a limit was met or the engine crashed, if that is what happened."""
    if isinstance(error, TimeoutError) or _ENDED in str(error):
        what = f"the model ran longer than {resources.seconds:g} s"
        return TimeLimitError(what, hint="--time-limit sets another limit")
    if is_memory_error(error):
        what = f"the model needs more than {resources.memory / 2**30:.3g} GiB of memory"
        return MemoryLimitError(what, hint="--memory-limit sets another limit")
    return ExecutionError(f"ONNX Runtime crashed on the data ({error})") if isinstance(error, DiedError) else None


def _outputs(model: ir.Model, also: Collection[ir.Value]) -> list[tuple[str, ir.DataType | None]]:
    values = dict.fromkeys([*model.graph.outputs, *also])
    return [(value.name, value.dtype) for value in values if value.name is not None]


def _require_names(graph: ir.Graph, outside: set[str]) -> None:
    """Refuse values without a name or with that of another: a proto would wire them wrongly.

    Bodies of which none is inside of the other do not see each other's names, and may have the same.
    """
    names: set[str] = set()
    for node in graph:
        for value in node.outputs:
            if not value.name and (value.uses() or value.is_graph_output()):
                raise ExecutionError(f"a result of {node.op_type} has no name", hint="run unique-names first")
            if value.name and (value.name in names or value.name in outside):
                raise ExecutionError(f"two values are named '{value.name}'", hint="run unique-names first")
            names.add(value.name or "")
    bodies = [body for node in graph if holds_graphs(node) for body in nested_graphs(node)]
    visible = outside | names if bodies else names
    for body in bodies:
        _require_names(body, visible)


def _require_finite(model: ir.Model) -> None:
    """Refuse functions that call each other so often that nothing could hold what they expand to."""
    if model.functions and (size := expanded_size(model)) > MOST_NODES:
        raise ExecutionError(f"the functions of the model expand to {size} nodes")


def _explain(error: Exception, model: ir.Model) -> ExecutionError:
    """Say which operator is the obstacle."""
    text = str(error)
    missing = _NOT_IMPLEMENTED.search(text)
    if missing:
        what = f"ONNX Runtime has no kernel for {missing[1]} (opset {missing[2]}) with these types"
        return ExecutionError(what, where=_node_of(model, missing[1]))
    unknown = _NOT_REGISTERED.search(text)
    if unknown:
        name = f"{unknown[1]}::{unknown[2]}" if unknown[1] else unknown[2]
        return ExecutionError(
            f"nothing defines the operator {name}", where=_node_of(model, unknown[2]), hint="give it a function"
        )
    return ExecutionError(f"the model cannot be executed: {_first_line(error)}")


def _node_of(model: ir.Model, op_type: str) -> str | None:
    for node in all_nodes(model.graph):
        if node.op_type == op_type:
            return f"{op_type} '{node.name or node.outputs[0].name}'"
    return None


def _first_line(error: Exception) -> str:
    line = str(error).strip().split("\n")[0]
    line = re.sub(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", line)
    # A node that holds graphs fails with the failure of the node inside of it.
    line = re.sub(r"^.* Status Message: (?=Non-zero status)", "", line)
    # Where in ONNX Runtime's source a condition is, and its text, say nothing of the model.
    return re.sub(r"/\S+:\d+ onnxruntime::.* was false\. |\b\w+\.(?:h|cc):\d+ ", "", line)[:300] or type(error).__name__
