"""The last check before a model is written: ONNX Runtime loads it as users do, if it loaded the original.

Results are compared without optimization, on a model without annotations. What users load is the file, optimized: here
that is tried in a process of its own, which may crash. Weights are not serialised for it. ONNX Runtime copies them when
it optimizes a model: one whose copies would exceed the limit of memory is loaded as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import ExitCode, OnnxPassesError
from onnx_passes.core.measure import measure
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.external import stub
from onnx_passes.graph.serialise import serialise
from onnx_passes.graph.uses import is_overwritten
from onnx_passes.graph.weightless import weightless
from onnx_passes.graph.wire import PROTOBUF_LIMIT
from onnx_passes.verify.run.child import Child, ChildError, DiedError, can_fork
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.run.pack import WEIGHTS

Original = Callable[[], ir.Model]

_NOT_HERE = ("NOT_IMPLEMENTED", "is not a registered function/op")
_LONGEST = 300
_COPIES = 4
"""So many times its weights may take what ONNX Runtime holds when it optimizes a model, twice in half precision."""
_NOT_OPTIMIZED = (
    "ONNX Runtime loaded the result without optimizations: for these it copies weights, beyond --memory-limit"
)


class NotLoadableError(OnnxPassesError):
    """ONNX Runtime loads the original model, but not the result of a run."""

    exit_code = ExitCode.VERIFICATION


@dataclass(frozen=True)
class LoadErrors:
    """Why the checker of onnx and ONNX Runtime refuse a model, empty if they take it.

    ``untried`` says why loading could not be tried, ``lacking`` what this installation lacks to run the file itself.
    """

    checker: str = ""
    runtime: str = ""
    lacking: str = ""
    untried: str = ""


@dataclass(frozen=True)
class Writable:
    """A model in the form in which it may be written, and notes about it."""

    model: ir.Model
    notes: tuple[str, ...] = ()


def as_writable(model: ir.Model, original: Original | None, executor: Executor | None = None) -> Writable:
    """Return the model that may be written for the result of a run; raises NotLoadableError if none may.

    Shapes inside that the checker of onnx contradicts are left out where it accepted the ``original``.
    """
    found = findings(model, executor)
    if not (found.checker or found.runtime):
        return Writable(model, tuple(filter(None, (found.lacking, found.untried))))
    before = LoadErrors() if original is None else findings(original(), executor)
    if found.runtime and original is not None and not before.runtime:
        raise NotLoadableError(
            f"ONNX Runtime does not load the result, but it loads the original: {found.runtime}",
            hint="nothing is written; --skip PASS leaves a pass out, --keep-intermediates FOLDER writes each step",
        )
    notes: list[str] = []
    if found.runtime:
        which = "the result" if original is None else "the result, nor the original"
        notes.append(f"ONNX Runtime does not load {which}: {found.runtime}")
    if found.checker and not before.checker:
        bare = _without_inner_shapes(model)
        if not findings(bare, executor).checker:
            notes.append(f"left out the shapes of inner values: onnx contradicts them: {found.checker}")
            return Writable(bare, tuple(notes))
        notes.append(f"the checker of onnx refuses the result: {found.checker}")
    return Writable(model, tuple(notes))


def findings(model: ir.Model, executor: Executor | None = None) -> LoadErrors:
    """Check a model with the checker of onnx, and load it in ONNX Runtime at its default level of optimization."""
    given = executor or Executor()
    options = {**given.profile.session_options, "session.disable_prepacking": "1"}
    fits = _COPIES * measure(model).bytes <= given.resources.memory
    profile = replace(given.profile, optimized=fits, round_halves=False, session_options=options)
    user = Executor(profile, given.functions, given.resources)
    if not can_fork():
        return LoadErrors(**_tried(model, user, given))
    try:
        child = Child(lambda: (_nothing, _tried(model, user, given)), user.resources)
    except DiedError as error:
        return LoadErrors(runtime=f"it crashes ({error})")
    except TimeoutError:
        return LoadErrors(untried=f"ONNX Runtime did not load the result within {user.resources.seconds:g} s")
    except MemoryError:
        return LoadErrors(untried="ONNX Runtime was not tried on the result: it needs more memory than --memory-limit")
    except ChildError as error:
        return LoadErrors(untried=f"ONNX Runtime was not tried on the result: {error}")
    found = LoadErrors(**child.known)  # pyright: ignore[reportCallIssue]
    return found if fits or found.runtime else replace(found, untried=_NOT_OPTIMIZED)


def _nothing(*_: object) -> list[Any]:
    return []


def _tried(model: ir.Model, user: Executor, given: Executor) -> dict[str, str]:
    checker = _refusal(lambda: _check(model))
    runtime, lacking = _refusal(lambda: _session(model, user)), ""
    # An optimized session does not find weights again that a function of the stand-in has taken in.
    if any(reason in runtime for reason in _NOT_HERE) and not _refusal(lambda: _stand_in(model, given)):
        # Operators of quantized networks, and types that only other machines compute with.
        lacking = f"ONNX Runtime here cannot run the result: {runtime}" if _NOT_HERE[0] in runtime else ""
        runtime = ""
    return {"checker": checker, "runtime": runtime, "lacking": lacking}


def _refusal(read: Callable[[], object]) -> str:
    try:
        read()
    except Exception as error:
        if isinstance(error, MemoryError) or "bad_alloc" in str(error):
            raise
        return " ".join(str(error).split())[:_LONGEST] or type(error).__name__
    return ""


def _check(model: ir.Model) -> None:
    import onnx

    checker: Any = onnx.checker
    checker.check_model(weightless(model), full_check=True)


def _session(model: ir.Model, executor: Executor) -> None:
    """Load a model as it is written, but with the big weights handed over."""
    handed: dict[str, Any] = {}
    outer = set(model.graph.initializers.values()) - set(model.graph.inputs)
    if not executor.profile.optimized:
        return _load(model, executor, outer, handed)
    if not model.functions:
        try:
            return _load(model, executor, outer, handed)
        except Exception:
            # ONNX Runtime does not always find weights again that are handed over: it may need them in place.
            if not handed:
                raise
    return _load(model, executor, set(), {})


def _load(model: ir.Model, executor: Executor, outer: Collection[ir.Value], handed: dict[str, Any]) -> None:
    def stand_in(value: ir.Value, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        held = executor.weights.handed(tensor) if value in outer and not is_overwritten(value) else None
        if held is None:
            return ir.Tensor(tensor.numpy(), tensor.dtype) if isinstance(tensor, ir.ExternalTensor) else tensor
        handed[value.name or ""] = held
        return stub(tensor, value.name or "", WEIGHTS, 0)

    proto = serialise(model, stand_in, "loading")
    if proto.ByteSize() > PROTOBUF_LIMIT:
        raise MemoryError
    executor.session_maker(proto.SerializeToString(), handed)()


def _stand_in(model: ir.Model, executor: Executor) -> None:
    """Load the model that verification runs in place of a model."""
    profile = replace(executor.profile, optimized=False, round_halves=True)
    _, session = Executor(profile, executor.functions, executor.resources).session_of(model)
    session()


def _without_inner_shapes(model: ir.Model) -> ir.Model:
    copied = copy_model(model)
    for node in all_nodes(copied.graph):
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    return copied
