"""Find nodes of a model: by operator, along a chain of operators, by an expression or by a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import onnx_ir as ir

from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph.names import Container
from onnx_passes.graph.schemas import standard_operators
from onnx_passes.ops.describe import operator_names
from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.law_left import pattern_of
from onnx_passes.rewrite.law_text import LawError, Operation, read
from onnx_passes.rewrite.match import Match, NodesByOperator, describe_node
from onnx_passes.rewrite.patterns import GraphPattern
from onnx_passes.rewrite.rule import Rule

_OPERATOR = re.compile(r"(?:[\w.]+::)?[A-Za-z_]\w*")
_FEW = 20
"""So many matches and misses are listed in a text."""


@dataclass(frozen=True)
class Miss:
    """Node at which a rule did not apply: the progress of the match, and the reasons why it stopped."""

    rule: str
    node: str
    progress: str
    reasons: tuple[str, ...]
    nodes: tuple[ir.Node, ...] = ()

    def __str__(self) -> str:
        return f"{self.node}: {self.progress}{'; '.join(self.reasons)}"


@dataclass(frozen=True, repr=False)
class Matches(Sequence[Match], Displayed):
    """Matches in a model, in its order, and places where a pass nearly applied."""

    what: str
    model: ir.Model
    found: tuple[Match, ...]
    missed: tuple[Miss, ...] = ()
    more: int = 0
    """Number of misses that are not listed."""

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Match]: ...
    def __getitem__(self, index: int | slice) -> Match | Sequence[Match]:
        """Return a match by its number."""
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)

    @property
    def nodes(self) -> list[ir.Node]:
        """List the nodes of all matches, each once."""
        return list(dict.fromkeys(node for match in self.found for node in match.nodes))

    def summary(self) -> str:
        """Return the numbers of matches and near misses in one line."""
        count = "1 match" if len(self.found) == 1 else f"{len(self.found)} matches"
        return ", ".join(filter(None, (f"{count} of {self.what}", self.near_misses())))

    def near_misses(self) -> str:
        """Count the places that a rule nearly matches, if there are any."""
        missed = len(self.missed) + self.more
        return f"{missed} near miss{'' if missed == 1 else 'es'}" if missed else ""

    def __repr__(self) -> str:
        return f"<Matches: {self.summary()}>"

    def __str__(self) -> str:
        lines = [self.summary()]
        lines += [f"  [{number}] {match_text(match)}" for number, match in enumerate(self.found[:_FEW])]
        lines += [f"  … {len(self.found) - _FEW} more"] if len(self.found) > _FEW else []
        lines += [f"  not {miss}" for miss in self.missed[:_FEW]]
        hidden = max(len(self.missed) - _FEW, 0) + self.more
        return "\n".join([*lines, *([f"  … {hidden} more near misses"] if hidden else [])])


def match_text(match: Match) -> str:
    """Return the nodes of a match, and the bindings of its variables."""
    nodes = ", ".join(map(describe_node, match.nodes))
    bound = ", ".join(f"{name} = {binding_text(value)}" for name, value in bindings_of(match).items())
    return f"{nodes}  ({bound})" if bound else nodes


def bindings_of(match: Match) -> dict[str, Any]:
    """Return the bindings of a match, without unbound variables."""
    return {name: value for name, value in match.bindings.items() if value is not None}


def binding_text(value: Any) -> str:
    """Return the text of a binding."""
    if isinstance(value, ir.Value):
        return f"'{value.name}'"
    return str(value.value) if isinstance(value, ir.Attr) else str(value)


def find(model: ir.Model, what: str | Rule | Callable[..., Any]) -> Matches:
    """Find an operator ``"Conv"``, a chain ``"Conv > Relu"``, an expression ``"Relu(x) + y"``, a pattern or a rule.

    In a chain each node reads the result of the one before it. A pattern is a function as in rules; for a rule, its
    check must hold, too.
    """
    if isinstance(what, Rule):
        return Matches(what.name, model, tuple(_matches(model, what)))
    if not isinstance(what, str):
        name = getattr(what, "__name__", "pattern")
        return Matches(name, model, tuple(_matches(model, _rule(what, name))))
    chain = [part.strip() for part in what.split(">")]
    if all(_OPERATOR.fullmatch(part) for part in chain):
        _require_known(model, chain)
        return Matches(what, model, tuple(_chains(model, chain)))
    return Matches(what, model, tuple(_matches(model, _rule(_expression(what), what))))


def _rule(pattern: Callable[..., Any] | GraphPattern, name: str) -> Rule:
    return Rule(pattern, _unchanged, name=name, forks="duplicate")


def _unchanged(op: Any) -> None:
    return None


def _expression(text: str) -> GraphPattern:
    try:
        read_text = read(text)
        if not isinstance(read_text, Operation):
            raise LawError("it is no operator")
        return pattern_of(read_text)
    except LawError as error:
        raise UsageError(
            f"'{text}' cannot be looked for: {error}",
            hint=error.hint or "write an operator, a chain 'Conv > Relu', or an expression 'Relu(Conv(x, ...))'",
        ) from None


def containers(model: ir.Model) -> Iterable[Container]:
    """List the graph and the functions of a model."""
    return model.graph, *model.functions.values()


def _matches(model: ir.Model, rule: Rule) -> Iterator[Match]:
    index = RuleIndex([rule])
    for container in containers(model):
        nodes = list(container.all_nodes())
        others = NodesByOperator()
        for node in nodes:
            others.add(node)
        for node in nodes:
            if index.covers(node):
                match = rule.find(model, container, node, refused=lambda reason: None, others=others)
                if match is not None:
                    yield match


def _chains(model: ir.Model, chain: Sequence[str]) -> Iterator[Match]:
    for container in containers(model):
        for node in container.all_nodes():
            if _is(node, chain[0]):
                for nodes in _continued((node,), chain[1:]):
                    yield Match(model, container, nodes[-1], nodes, tuple(nodes[-1].outputs))


def _continued(nodes: tuple[ir.Node, ...], chain: Sequence[str]) -> Iterator[tuple[ir.Node, ...]]:
    if not chain:
        yield nodes
        return
    for user in dict.fromkeys(use.node for value in nodes[-1].outputs for use in value.uses()):
        if _is(user, chain[0]):
            yield from _continued((*nodes, user), chain[1:])


def _is(node: ir.Node, operator: str) -> bool:
    domain, _, name = operator.rpartition("::")
    return node.op_type == name and (not domain or node.domain == domain)


def _require_known(model: ir.Model, operators: Iterable[str]) -> None:
    """Refuse an operator that neither the model nor anybody else knows."""
    here = {node.op_type for container in containers(model) for node in container.all_nodes()}
    for operator in operators:
        name = operator.rpartition("::")[2]
        if name not in here and name not in (known := {*standard_operators(), *operator_names()}):
            near = did_you_mean(name, here) or did_you_mean(name, known)
            raise UsageError(f"there is no operator named '{name}'", hint=near or "'onnx-passes inspect' shows all")
