"""Hints of a pass for the fuzzer; most passes need none.

A class attribute ``fuzz_hints``, a plain mapping with any of these keys::

    fuzz_hints = {
        "constants": {"c": [0.5, [1, 2, 4]]},   # values that variable c of the pattern may have
        "shapes": {"x": [(1, 3, 8, 8)]},        # shapes that variable x may have
        "dtypes": ["float32", "int8"],          # element types to use where the operators leave a choice
        "models": ["<ir_version: 10, …> g (…) => (…) {…}"],  # models in ONNX text, used beside generated ones
    }
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from onnx_passes.core.errors import RegistrationError, did_you_mean
from onnx_passes.rewrite.patterns import depths
from onnx_passes.rewrite.rule import Rule


@dataclass(frozen=True)
class Hints:
    """Candidates for variables of a pattern, and models to start from."""

    constants: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    shapes: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict[str, Sequence[Sequence[int]]])
    dtypes: Sequence[str] = ()
    models: Sequence[str] = ()

    @staticmethod
    def of(owner: object) -> Hints:
        """Read the hints of a pass, or of its class."""
        given = getattr(owner, "fuzz_hints", None)
        if given is None:
            return Hints()
        if not isinstance(given, Mapping):
            raise RegistrationError(f"'fuzz_hints' of {owner} is not a mapping", hint="write fuzz_hints = {…}")
        hints = cast(Mapping[str, Any], given)
        known = tuple(Hints.__dataclass_fields__)
        for key in hints:
            if key not in known:
                hint = did_you_mean(str(key), known) or f"known: {', '.join(known)}"
                raise RegistrationError(f"'fuzz_hints' of {owner} has no key '{key}'", hint=hint)
        return Hints(**hints)

    def about(self, rule: Rule) -> Hints:
        """Keep the models that have all operators of a pattern, or else its roots, or else all models."""
        for nodes in (depths(rule.roots), rule.roots):
            named = [operator for node in nodes if (operator := node.operator) is not None]
            names = [f"{domain}.{name}" if domain else name for domain, name in named]
            fitting = [model for model in self.models if all(_mentions(model, name) for name in names)]
            if fitting:
                return replace(self, models=fitting)
        return self


def _mentions(model: str, operator: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(operator)}\s*[<(]", model) is not None
