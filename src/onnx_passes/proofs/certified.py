"""Proofs of one application by a certificate: the rule is proved, and its operands lie in the domain."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.records import Application
from onnx_passes.proofs.proof import Proof, ProofLevel, Unproved
from onnx_passes.proofs.rule_certificate import certificate_of


@dataclass(frozen=True)
class Extent:
    """Element types and ranks of data, and the operator set; ``unknown`` says that of some value they are not known."""

    types: frozenset[str]
    ranks: frozenset[int]
    opset: int
    unknown: bool = False


def extent_of(values: Iterable[ir.Value], opset: int) -> Extent:
    """Return the extent of values; structural values, such as axes and shapes, do not count."""
    data = [value for value in values if not _is_structural(value)]
    types = {_name(value.dtype) for value in data if value.dtype is not None}
    ranks = {len(value.shape) for value in data if value.shape is not None}
    unknown = any(value.dtype is None or value.shape is None for value in data)
    return Extent(frozenset(types), frozenset(ranks), opset, unknown)


def _is_structural(value: ir.Value) -> bool:
    """Return whether a value is a constant integer, or a constant vector of integers."""
    known = value.const_value
    return known is not None and known.dtype is ir.DataType.INT64 and len(known.shape) <= 1


def _name(dtype: ir.DataType) -> str:
    return dtype.name.lower()


class Certified:
    """Proofs of rules of one level: bit by bit, or over the reals."""

    def __init__(self, level: ProofLevel) -> None:
        self._level = level
        self._opset = 0

    def begin(self, model: ir.Model) -> None:
        """Note the operator set."""
        self._opset = model.opset_imports.get("", 0)

    def prove(self, application: Application, owner: Pass, wanted: Collection[str] = ()) -> Proof | Unproved | None:
        """Return the proof of the rule, if its domain covers the application."""
        certificate = certificate_of(owner, application.rule)
        proof = None if certificate is None else certificate.proof()
        if certificate is None or proof is None or proof.level != self._level:
            return None
        values = _values(application)
        extent = extent_of(values, application.graph.opset_imports.get("", self._opset))
        if extent.unknown:
            return Unproved("the certificate of the rule asks for types and ranks, and some are not known")
        if not certificate.domain.covers(extent.types, extent.ranks, extent.opset):
            return Unproved(f"the certificate of the rule does not cover it, but {certificate.domain}")
        return proof

    def follow(self, application: Application, owner: Pass) -> None:
        """Certificates do not depend on the model."""


def _values(application: Application) -> list[ir.Value]:
    """List the operands and results, and the inner values whose type and shape are known."""
    made = {value for node in application.matched for value in node.outputs}
    ends = {old for old, _ in application.replaced}
    found = dict.fromkeys(
        value for node in application.matched for value in (*node.inputs, *node.outputs) if value is not None
    )
    return [value for value in found if value not in made or value in ends or (value.dtype and value.shape is not None)]
