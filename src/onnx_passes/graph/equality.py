"""Structural equality of two models, and their first difference."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.hashing.canonical import Numbering
from onnx_passes.graph.hashing.content import Contents, operator
from onnx_passes.graph.hashing.dead_nodes import Colours, dead_colours
from onnx_passes.graph.hashing.fingerprint import used_functions, used_opsets
from onnx_passes.graph.lockstep import FirstDifference, Lockstep
from onnx_passes.graph.wording import attribute_differences, count, name_of, type_text

if TYPE_CHECKING:
    from collections.abc import Sequence

Structure: TypeAlias = "ir.Model | ir.Graph | ir.Function"


def structurally_equal(a: Structure, b: Structure) -> bool:
    """Return whether two models are equal except for interior names, node order, types, shapes and metadata.

    They are if and only if their :func:`~onnx_passes.graph.hashing.fingerprint.structural_hash` is the same.
    """
    return first_difference(a, b) is None


def assert_structurally_equal(a: Structure, b: Structure) -> None:
    """Raise AssertionError with the path to the first difference, if there is one."""
    difference = first_difference(a, b)
    if difference is not None:
        raise AssertionError(f"not the same structure: {difference}")


def first_difference(a: Structure, b: Structure) -> FirstDifference | None:
    """Return the first difference in structure, found by walking back from the outputs; None if there is none."""
    outcome = compare(a, b, Contents())
    return outcome if isinstance(outcome, FirstDifference) else None


def compare(a: Structure, b: Structure, contents: Contents, *, names: bool = True) -> FirstDifference | Lockstep:
    """Return the first difference, or the walk that pairs everything that reaches an output.

    ``contents`` defines the compared content of operators and constants, ``names`` whether interface names count.
    """
    walk = Lockstep(contents)
    if isinstance(a, ir.Function) and isinstance(b, ir.Function):
        return _functions_differ(a, b, contents, walk) or walk
    if isinstance(a, ir.Function) or isinstance(b, ir.Function):
        raise UsageError("a function can only be compared with a function")
    graph_a, graph_b = _graph(a), _graph(b)
    difference = _interfaces_differ(graph_a, graph_b, names=names)
    difference = difference or _graphs_differ(graph_a, graph_b, contents, walk)
    if difference is None and isinstance(a, ir.Model) and isinstance(b, ir.Model):
        difference = _called_functions_differ(a, b, contents)
    return difference or walk


def _graphs_differ(a: ir.Graph, b: ir.Graph, contents: Contents, walk: Lockstep) -> FirstDifference | None:
    return walk.compare(a, b) or _rests_differ(a, b, contents, walk) or _opsets_differ(a, b)


def _graph(structure: ir.Model | ir.Graph) -> ir.Graph:
    return structure.graph if isinstance(structure, ir.Model) else structure


def _interfaces_differ(a: ir.Graph, b: ir.Graph, *, names: bool) -> FirstDifference | None:
    inputs = _values_differ("input", a.inputs, b.inputs, names=names)
    return inputs or _values_differ("output", a.outputs, b.outputs, names=names)


def _values_differ(noun: str, a: Sequence[ir.Value], b: Sequence[ir.Value], *, names: bool) -> FirstDifference | None:
    if len(a) != len(b):
        return FirstDifference((), f"{count(a, noun)} vs {count(b, noun)}")
    for position, (value_a, value_b) in enumerate(zip(a, b, strict=True)):
        if names and value_a.name != value_b.name:
            return FirstDifference((f"{noun} {position}",), f"'{value_a.name}' vs '{value_b.name}'")
        if value_a.type != value_b.type:
            types = f"{type_text(value_a.type)} vs {type_text(value_b.type)}"
            return FirstDifference((f"{noun} {position} '{value_a.name}'",), types)
    return None


def _rests_differ(a: ir.Graph, b: ir.Graph, contents: Contents, walk: Lockstep) -> FirstDifference | None:
    """Compare the nodes that reach no output by their colours."""
    if walk.covers_all():
        return None
    rest_a, rest_b = Numbering(a), Numbering(b)
    colours_a, colours_b = dead_colours(rest_a, contents), dead_colours(rest_b, contents)
    if Counter(colours_a.values()) == Counter(colours_b.values()):
        return None
    return (
        _more(colours_a, colours_b, ir.Node, "node", "that reaches no output", "that reach no output")
        or _more(colours_a, colours_b, ir.Value, "initializer", "that is not used", "that are not used")
        or FirstDifference((), "what reaches no output is wired differently")
    )


def _more(
    a: Colours, b: Colours, kind: type[ir.Node] | type[ir.Value], noun: str, single: str, several: str
) -> FirstDifference | None:
    """Describe that one of two models has more nodes that reach no output, and name one."""
    rest_a, rest_b = _of_kind(a, kind), _of_kind(b, kind)
    if len(rest_b) > len(rest_a):
        fewer, more, names = rest_a, rest_b, "ab"
    else:
        fewer, more, names = rest_b, rest_a, "ba"
    example = _without_partner(more, fewer)
    if example is None:
        return None
    name = name_of(example) if isinstance(example, ir.Node) else f"'{example.name}'"
    which = f"{single if len(more) == 1 else several} ({name})"
    others = "others" if len(fewer) == len(more) else len(fewer) or "none"
    return FirstDifference((), f"{names[1]} has {count(more, noun)} {which}, {names[0]} has {others}")


def _of_kind(colours: Colours, kind: type[ir.Node] | type[ir.Value]) -> Colours:
    return {element: colour for element, colour in colours.items() if isinstance(element, kind)}


def _without_partner(elements: Colours, others: Colours) -> ir.Node | ir.Value | None:
    left = Counter(others.values())
    for element, colour in elements.items():
        left[colour] -= 1
        if left[colour] < 0:
            return element
    return None


def _opsets_differ(a: ir.Graph, b: ir.Graph) -> FirstDifference | None:
    versions_a = used_opsets(a.opset_imports, map(operator, a.all_nodes()))
    versions_b = used_opsets(b.opset_imports, map(operator, b.all_nodes()))
    for (domain, version_a), (_, version_b) in zip(versions_a, versions_b, strict=True):
        if version_a != version_b:
            what = f"{version_a or 'not imported'} vs {version_b or 'not imported'}"
            return FirstDifference((f"opset version of domain '{domain or 'ai.onnx'}'",), what)
    return None


def _called_functions_differ(a: ir.Model, b: ir.Model, contents: Contents) -> FirstDifference | None:
    functions_a, functions_b = _called(a), _called(b)
    for identifier in sorted({*functions_a, *functions_b}):
        function_a, function_b = functions_a.get(identifier), functions_b.get(identifier)
        if function_a is None or function_b is None:
            owner = "b" if function_a is None else "a"
            name = "::".join(filter(None, identifier))
            return FirstDifference((f"function '{name}'",), f"defined only in {owner}")
        difference = _functions_differ(function_a, function_b, contents, Lockstep(contents))
        if difference is not None:
            return difference
    return None


def _called(model: ir.Model) -> dict[ir.OperatorIdentifier, ir.Function]:
    functions = used_functions(model, map(operator, model.graph.all_nodes())) if model.functions else []
    return {function.identifier(): function for function in functions}


def _functions_differ(a: ir.Function, b: ir.Function, contents: Contents, walk: Lockstep) -> FirstDifference | None:
    if a.identifier() != b.identifier():
        return FirstDifference((), f"function {a.identifier()} vs {b.identifier()}")
    name = f"function '{a.domain}::{a.name}'"
    for attribute, what in attribute_differences(a, b, contents).items():
        return FirstDifference((f"{name} attribute '{attribute}'",), what)
    difference = _graphs_differ(a.graph, b.graph, contents, walk)
    return None if difference is None else FirstDifference((name, *difference.path), difference.what)
