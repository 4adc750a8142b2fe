"""The engine that proves, and what tells models apart that are no models: ONNX Runtime refuses them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.shapes import static_shape
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.inputs import paired_inputs
from onnx_passes.proofs.proof import Assumption, Proof, Unproved
from onnx_passes.proofs.real_numbers import same_in_fields
from onnx_passes.proofs.under_flags import FLAGS, prove_under_flags
from onnx_passes.proofs.unfolded import prove_unfolded
from onnx_passes.verify.run.execute import ExecutionError, Executor


@dataclass(frozen=True)
class Promise:
    """What a rule is held to: the same bits or the same real numbers, but for what flags of fast math excuse."""

    exact: bool
    flags: frozenset[str] = frozenset()


def engine(before: ir.Model, after: ir.Model, promise: Promise) -> Proof | Unproved:
    """Prove that two models compute what is promised; the solver is asked for bits alone."""
    try:
        return _bits(before, after, promise.flags) if promise.exact else _reals(before, after, promise.flags)
    except Exception as error:  # noqa: BLE001 - whatever an evaluation or the solver raises, it is no proof
        return Unproved(f"evaluation fails: {type(error).__name__}: {error}")


def _bits(before: ir.Model, after: ir.Model, flags: frozenset[str]) -> Proof | Unproved:
    found = prove_equal(before, after, allow=flags)
    if isinstance(found, Proof) and found.holds == "proved-here":
        return found
    is_refuted = isinstance(found, Unproved) and found.refuted
    unfolded = None if is_refuted else prove_unfolded(before, after)
    if unfolded is not None:
        return unfolded
    excused = flags & set(FLAGS)
    if excused and not (is_refuted and not found.flags):
        under = prove_under_flags(before, after, excused)
        if isinstance(under, Proof) or not is_refuted:
            return under
    return Unproved("equal over the reals, but its pass promises bits") if isinstance(found, Proof) else found


def _reals(before: ir.Model, after: ir.Model, flags: frozenset[str]) -> Proof | Unproved:
    """Prove equality over the reals, where zeros have no sign; how far rounding drives floats apart is not asked.

    An example for which floats differ all the same must have NaN or infinities in it, and a flag that excuses them.
    """
    allowed = flags | ROUNDING | {"nsz"}
    found = prove_equal(before, after, allow=allowed, solver=False)
    if isinstance(found, Proof):
        return found
    unfolded = None if found.refuted else prove_unfolded(before, after)
    if unfolded is not None:
        return unfolded
    inputs = paired_inputs(before, after)
    for fold in (False, True):
        same, assumed = same_in_fields(before, after, inputs, fold=fold)
        if same:
            special = _specials(before, after, found.example)
            if special and not special & flags:
                return Unproved(f"equal over the reals, but needs {' or '.join(sorted(special))}; {found.reason}", True)
            assumptions = tuple(Assumption(text, "equal-in-reals") for text in assumed)
            return Proof("equal-in-reals", "finite fields", assumptions=assumptions)
    if found.refuted and found.flags and set(found.flags) <= allowed:
        return Unproved(f"not decided: different only where {', '.join(found.flags)} allow it")
    return found


def _specials(before: ir.Model, after: ir.Model, example: Mapping[str, np.ndarray] | None) -> set[str]:
    """Name the flags that excuse what occurs in an example: NaN and infinities, in it or in what comes of it."""
    if not example:
        return set()
    arrays = list(example.values())
    with contextlib.suppress(ExecutionError, OnnxPassesError):
        for model in (before, after):
            arrays += Executor().prepare(model, engine="onnxruntime").run(dict(example)).values()
    floats = [array.astype(np.float64) for array in arrays if array.dtype.kind not in "biuO"]
    found = {"nnan"} if any(np.isnan(array).any() for array in floats) else set[str]()
    return found | ({"ninf"} if any(np.isinf(array).any() for array in floats) else set[str]())


def runs(model: ir.Model) -> bool:
    """Tell whether ONNX Runtime executes a model on ones."""
    feed: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        shape, dtype = static_shape(value), value.dtype
        if shape is None or dtype is None:
            return False
        text = dtype is ir.DataType.STRING
        feed[str(value.name)] = np.full(shape, "a", dtype=object) if text else np.ones(shape, dtype.numpy())
    try:
        Executor().prepare(model, engine="onnxruntime").run(feed)
    except (ExecutionError, OnnxPassesError):
        return False
    return True
