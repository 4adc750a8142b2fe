"""Remove Identity nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.eliminate.forms import bypass, examples
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateIdentity(Transformation, RewriteRuleSetPass):
    """Remove Identity nodes, also of sequences and optional values.

    Rewrites: ``Identity(x)`` → ``x``.
    Refuses:  to touch the interface: where a graph or a branch passes an input or an outer value on to an output,
              or has the same value as two outputs, one Identity stays for each name.
    Exactness: bit-exact.
    """

    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
        *(
            f"g ({kind} x) => ({kind} y{other}) {{{body}}}"
            for kind in ("float[2,N]", "int8", "float16[0]", "string[2]", "bool[1,1]")
            for other, body in (
                ("", "a = Identity (x) y = Identity (a)"),
                ("", "y = Identity (x)"),
                ("", "a = Transpose (x) b = Identity (a) y = Transpose (b)"),
                (f", {kind} z", "a = Identity (x) y = Identity (a) z = Identity (a)"),
                (f", {kind} z", "a = Transpose (x) z = Transpose (a) y = Identity (z)"),
                (f", {kind} z", "a = Transpose (x) b = Transpose (a) z = Identity (b) y = Identity (z)"),
            )
        )
    )

    def rules(self) -> Sequence[Rule]:
        """Return the one rule."""
        return [bypass("Identity", _always)]


def _always(node: ir.Node) -> bool:
    return yes
