"""Rules whose pattern is one node: they are given the node itself."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Answer, Rewritten
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of


def node_rule(
    operator: str,
    rewrite: Callable[[Builder, ir.Node], Rewritten],
    check: Callable[[Match, ir.Node], Answer] | None = None,
    *,
    domain: str = "",
    name: str = "",
    forks: Forks = "exclusive",
    source: str | None = None,
) -> Rule:
    """Make a rule for every node of an operator that has an input and one result."""

    def pattern(op: Op, x: Var) -> Var:
        return getattr(op, operator)(x, _domain=domain, _allow_other_inputs=True, _outputs=["y"])

    def rewritten(op: Builder, y: ir.Value) -> Rewritten:
        return rewrite(op, _producer(y))

    def checked(match: Match, y: ir.Value) -> Answer:
        assert check is not None
        return check(match, _producer(y))

    return Rule(
        pattern,
        rewritten,
        None if check is None else checked,
        name=name or operator,
        commute=False,
        forks=forks,
        source=source or source_of(rewrite),
    )


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node
