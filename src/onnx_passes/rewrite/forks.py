"""Forks: values inside a match that something outside of it uses too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import onnx_ir as ir

from onnx_passes.graph.randomness import Functions, draws
from onnx_passes.graph.traits import is_cheap
from onnx_passes.rewrite.refusal import Refusal, no

Forks = Literal["exclusive", "duplicate", "cheap"]
"""Policy for values inside the match that are used outside: refuse; compute them twice; only if cheap."""


def refuse_fork(
    forks: Forks, nodes: Sequence[ir.Node], outputs: Collection[ir.Value], functions: Functions
) -> Refusal | None:
    """Refuse a match whose values would be computed twice against the policy of the rule.

    A node with outer uses stays, and so do its producers. Nodes that draw random numbers, themselves or in
    ``functions`` that they call, are never computed twice, as the two results would differ.
    """
    if len(nodes) == 1 and all(value in outputs for value in nodes[0].outputs):
        return None
    inside = set(nodes)
    waiting = {node: value for node in nodes for value in node.outputs if _is_used_outside(value, inside, outputs)}
    if not waiting:
        return None
    if forks == "exclusive":
        first = next(iter(waiting.values()))
        return no(f"a value inside the match is {_how(first)}", at=first)
    staying: set[ir.Node] = set()
    while waiting:
        node, value = waiting.popitem()
        staying.add(node)
        if draws(node, functions):
            return no(f"a value inside the match is {_how(value)}, and {node.op_type} is random", at=value)
        if forks == "cheap" and not is_cheap(node):
            return no(f"a value inside the match is {_how(value)}, and {node.op_type} is not cheap", at=value)
        for used in node.inputs:
            producer = None if used is None or used in outputs else used.producer()
            if used is not None and producer in inside and producer not in staying:
                waiting[producer] = used
    return None


def _is_used_outside(value: ir.Value, inside: set[ir.Node], outputs: Collection[ir.Value]) -> bool:
    if value in outputs:
        return False
    return value.is_graph_output() or any(use.node not in inside for use in value.uses())


def _how(value: ir.Value) -> str:
    return "a graph output" if value.is_graph_output() else "used elsewhere"
