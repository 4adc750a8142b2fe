"""Values that depend on nothing but constants: both sides are computed once, and their results compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.records import Application
from onnx_passes.fragment.assembly import Assembly
from onnx_passes.fragment.fragment import Fragment, FragmentError, SideBySide
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.hashing.content import tensor_digest
from onnx_passes.graph.traits import traits_of
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.congruence import disagreement
from onnx_passes.verify.proving.facts import Facts, fragments_of
from onnx_passes.verify.run.execute import ExecutionError

METHOD = "constants compared"
_ROUNDED = ("bits", "reals")
"""The semantics that hold for constants computed in floats: real numbers but for the rounding of constants."""
_MOST_BYTES = 2**26
"""Bytes of constants that wait to be compared."""


def prove_constant(old: Fragment, new: Fragment, facts: Facts) -> Proof | Unproved:
    """Run two sides that read nothing."""
    expected, found = SideBySide((old, new), facts.model, facts.executor)([])
    if wrong := disagreement(expected, found, ()):
        return Unproved(wrong)
    return _proof(sum(array.size for array in expected), _is_exact(old) and _is_exact(new))


@dataclass(frozen=True)
class _Waiting:
    """Constants that an application has stored, and the copies of the values that they replace."""

    number: int
    rule: str
    pairs: tuple[tuple[ir.Value, ir.TensorProtocol], ...]
    is_exact: bool


class StoredConstants:
    """Compares stored constants with the values that they replace, many in one run."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._copies = Assembly()
        self._waiting: list[_Waiting] = []
        self._bytes = 0

    def add(self, application: Application) -> Proof | Unproved | None:
        """Compare with constants at once; None if values have to be computed, which waits for ``finish``."""
        tensors = [constant_tensor(new) for _, new in application.replaced]
        held = [constant_tensor(old) for old, _ in application.replaced]
        stored = [tensor for tensor in tensors if tensor is not None]
        if len(stored) < len(tensors):
            return Unproved("the new value is not constant")
        before = [tensor for tensor in held if tensor is not None]
        if len(before) == len(held):
            if all(map(same_bits, before, stored)):
                return _proof(sum(tensor.size for tensor in stored), is_exact=True)
            return Unproved("the new constant has other bits")
        try:
            old, _ = fragments_of(application, self._facts.model.functions)
        except FragmentError as error:
            return Unproved(str(error))
        if old.inputs:
            return Unproved("the old value is not computed from constants")
        self._copies.add(old.nodes)
        pairs = tuple(zip(map(self._copies.computed, old.outputs), stored, strict=True))
        self._waiting.append(_Waiting(application.number, application.rule, pairs, _is_exact(old)))
        self._bytes += sum(tensor.nbytes for tensor in stored)
        return None

    @property
    def is_full(self) -> bool:
        """Return whether so much waits that it should be compared now."""
        return self._bytes > _MOST_BYTES

    def finish(self) -> Iterator[tuple[int, str, Proof | Unproved]]:
        """Run all that waits; yield number and rule of each application with its proof or the reason for none."""
        waiting, copies = self._waiting, self._copies
        self._waiting, self._copies, self._bytes = [], Assembly(), 0
        if not waiting:
            return
        try:
            outputs = dict.fromkeys(value for each in waiting for value, _ in each.pairs)
            found = self._facts.executor.prepare(copies.model(self._facts.model, outputs), engine="onnxruntime").run({})
        except ExecutionError as error:
            reason = f"constants cannot be computed again: {error}"
            yield from ((each.number, each.rule, Unproved(reason)) for each in waiting)
            return
        for each in waiting:
            expected = [found[str(value.name)] for value, _ in each.pairs]
            wrong = disagreement(expected, [tensor.numpy() for _, tensor in each.pairs], ())
            size = sum(array.size for array in expected)
            yield each.number, each.rule, Unproved(wrong) if wrong else _proof(size, is_exact=each.is_exact)


def _proof(amount: int, is_exact: bool) -> Proof:
    said = f"all {amount:,} elements are computed from constants, and equal"
    return Proof("proved-here", METHOD, (said,), semantics=() if is_exact else _ROUNDED)


def _is_exact(side: Fragment) -> bool:
    """Return whether a side rounds no float: it moves elements, or computes with integers."""
    return all(
        traits_of(node).kind == "movement" or node.op_type in ("Identity", "Constant") or _is_of_integers(node.outputs)
        for node in side.nodes
    )


def _is_of_integers(values: Sequence[ir.Value]) -> bool:
    return all(value.dtype is not None and not value.dtype.is_floating_point() for value in values)


def same_bits(a: ir.TensorProtocol, b: ir.TensorProtocol) -> bool:
    """Return whether two tensors are of one type and shape and hold the same bits."""
    return a is b or tensor_digest(a) == tensor_digest(b)
