"""Building blocks of random models: patterns of all registered rules, models of their authors, and operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from onnx_passes.graph.schemas import schema_of
from onnx_passes.graph.traits import TRAITS
from onnx_passes.rewrite.rule import Rule
from onnx_passes.testing.fuzz.hints import Hints
from onnx_passes.testing.fuzz.site import RECIPES
from onnx_passes.testing.fuzz.targets import Target, registered

_QUANTIZED = ("qonnx", "quant", "streamline", "thresholds")
"""Packages of rules about quantized networks."""
_OPSET = 20
_STATEFUL = frozenset({"Dropout", "If", "Loop", "Scan", "RandomNormalLike", "RandomUniformLike", "Bernoulli"})


@dataclass(frozen=True)
class Piece:
    """Building block of a model: an instance of a pattern, or a model of the author."""

    rule: Rule
    hints: Hints


Pieces = Mapping[str, tuple[Piece, ...]]
"""Building blocks by pass: all passes are equally likely, whatever their number of rules."""


@cache
def patterns(*, quantized: bool) -> Pieces:
    """List the rules of quantized networks, or all others, by pass."""
    found: dict[str, list[Piece]] = {}
    for target in registered():
        if (_room_of(target) in _QUANTIZED) == quantized:
            found.setdefault(target.name.partition("/")[0], []).append(Piece(target.rule, target.hints))
    return {name: tuple(pieces) for name, pieces in found.items()}


@cache
def operators() -> tuple[Piece, ...]:
    """List the operators that have a recipe."""
    names = {name for domain, name in RECIPES.table() if domain == ""}
    names |= {name for (domain, name), traits in TRAITS.table().items() if not domain and traits.kind == "elementwise"}
    known = [name for name in sorted(names - _STATEFUL) if schema_of("", name, _OPSET) is not None]
    return tuple(Piece(_rule_of(name), Hints()) for name in known)


def _room_of(target: Target) -> str:
    return Path(target.rule.source.rsplit(":", 1)[0]).parent.name


def _rule_of(operator: str) -> Rule:
    """Make a rule of one operator, of which only the pattern is used."""

    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, operator)(x, _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["y"])

    def rewrite(op: Any, x: Any) -> Any:
        return op.Identity(x)

    return Rule(pattern, rewrite, name=operator, commute=False)
