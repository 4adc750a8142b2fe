"""Check a model for structural properties."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Analysis
from onnx_passes.core.errors import OptionError, StructureError, UsageError
from onnx_passes.core.options import option
from onnx_passes.verify.structure.vocabulary import parse_property


@passes.verify.equality
@passes.register(tags=("check",))
class CheckStructure(Analysis):
    """Check structural properties of the model; a violated one ends the run.

    Rewrites: nothing; the model, its subgraphs and functions are only read.
    Refuses:  a model with a property violated, naming the property and the first nodes or values at fault.
              Properties: acyclic, connected, single-assignment, no-dangling-values, no-dead-nodes, sorted,
              static-shapes, no-functions, ``only(Relu, domain::*, …)``, ``none-of(Relu, …)``,
              ``at-most(Relu, 3)``, ``at-least(Relu, 1)``, ``isomorphic(FILE, constants, attributes)``,
              and ``all-of(…)``, ``any-of(…)``, ``not(…)`` of these.
    Exactness: changes nothing.
    """

    properties: tuple[str, ...] = option(
        ("acyclic", "no-dangling-values", "sorted"), 'required properties, as in [acyclic, "at-most(Relu, 3)"]'
    )

    def __post_init__(self) -> None:
        """Parse the properties, so that a mistake is reported before anything runs."""
        try:
            self._parsed = tuple(map(parse_property, self.properties))
        except UsageError as error:
            raise OptionError(error.what, where=error.where, hint=error.hint) from error
        if not self._parsed:
            raise OptionError("pass 'check-structure' is given no property", hint="name one, or leave out the option")
        for prop in self._parsed:
            if prop.needs_before:
                raise OptionError(
                    f"property '{prop}' compares with the model before a pass, and a check has none",
                    hint="name a file, or promise it with @passes.verify.structure",
                )

    def analyze(self, model: ir.Model) -> dict[str, Any]:
        """Check each property; raise StructureError on violations."""
        violations = [violation for prop in self._parsed for violation in prop.violations(model)]
        if violations:
            raise StructureError("the model violates required properties: " + "; ".join(map(str, violations)))
        return {"holds": [str(prop) for prop in self._parsed]}
