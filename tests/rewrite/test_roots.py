"""Patterns with several roots: which they are, and how one leads to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from onnxscript.rewriter.pattern import ANY_VALUE

from onnx_passes.rewrite.patterns import build_pattern
from onnx_passes.rewrite.rule import find_roots, order_roots


def links(function: Callable[..., Any], first: int = 0) -> list[tuple[str, str | None, list[str]]]:
    """Return for each further root its operator, the value that leads there and the operators on the way."""
    roots = find_roots(build_pattern(function, "rule"))
    return [
        (link.root.op_type, None if link.start is None else link.start.name, [node.op_type for node in link.way])
        for link in order_roots(roots, first)
    ]


def root_types(function: Callable[..., Any]) -> list[str]:
    return [root.op_type for root in find_roots(build_pattern(function, "rule"))]


def test_a_single_output_is_the_root() -> None:
    assert root_types(lambda op, x: op.Neg(op.Relu(x))) == ["Neg"]


@pytest.mark.parametrize("inner_first", [True, False])
def test_an_output_that_another_one_needs_is_no_root(inner_first: bool) -> None:
    def both(op: Any, x: Any) -> Any:
        relu = op.Relu(x)
        return (relu, op.Neg(relu)) if inner_first else (op.Neg(relu), relu)

    assert root_types(both) == ["Neg"]
    assert links(both) == []


def test_a_shared_variable_leads_to_the_other_root() -> None:
    assert links(lambda op, x: (op.Neg(x), op.Relu(x))) == [("Relu", "x", ["Relu"])]


def test_the_way_up_passes_the_nodes_between() -> None:
    def far(op: Any, x: Any) -> Any:
        return op.Neg(x), op.Relu(op.Exp(op.Log(x)))

    assert links(far) == [("Relu", "x", ["Log", "Exp", "Relu"])]
    assert links(far, first=1) == [("Neg", "x", ["Neg"])]


def test_a_shared_node_leads_there_by_the_shortest_way() -> None:
    def shared(op: Any, x: Any) -> Any:
        total = op.Exp(op.Log(x), _outputs=["total"])
        return op.Neg(total), op.Relu(total)

    assert links(shared) == [("Relu", "total", ["Relu"])]


def test_roots_are_ordered_so_that_each_is_reached_from_one_before() -> None:
    def in_a_row(op: Any, x: Any, y: Any) -> Any:
        return op.Neg(x), op.Exp(y), op.Sub(x, y)

    assert links(in_a_row) == [("Sub", "x", ["Sub"]), ("Exp", "y", ["Exp"])]
    assert links(in_a_row, first=1) == [("Sub", "y", ["Sub"]), ("Neg", "x", ["Neg"])]


def test_roots_that_share_nothing_have_to_be_searched_for() -> None:
    assert links(lambda op, x, y: (op.Neg(x), op.Relu(y))) == [("Relu", None, [])]


def test_constants_and_wildcards_lead_nowhere() -> None:
    assert links(lambda op: (op.Sub(ANY_VALUE, 1.0), op.Div(ANY_VALUE, 1.0))) == [("Div", None, [])]
