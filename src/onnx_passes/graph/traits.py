"""Common properties of operators in one table, so that rules need not name operators one by one.

Algebraic traits hold for real numbers; with ``exact`` also bit by bit in floating point, except that ONNX Runtime
chooses between zeros of different sign by their order in Max and Min. On integers elementwise operators wrap around and
are exact; ONNX Runtime's integer sums and products are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from onnx_passes.graph.operators import Interface

Number = bool | float
Kind = Literal["elementwise", "reduction", "pooling", "movement", "normalization", "product", "other"]


@dataclass(frozen=True)
class Traits:
    """The traits of one operator.

    A ``product`` only multiplies and sums, so that integers stay integers; a ``normalization`` gives groups of
    elements a common size. ``arity`` is the number of inputs that broadcast against each other (0: any number).
    ``identity`` leaves the other input unchanged, from the right only if not ``commutative``; ``annihilator`` is the
    result for any other input. ``idempotent`` means ``f(f(x)) = f(x)``, with two inputs ``f(x, x) = x``; ``involution``
    means ``f(f(x)) = x``. ``monotone`` is 1 if the result increases with the first input, -1 if it decreases, 0 if
    neither. ``parity`` is -1 if ``f(-x) = -f(x)``, 1 if ``f(-x) = f(x)``. ``converse`` is the comparison with swapped
    inputs, ``complement`` the negated one (except for NaN). ``undoes`` names the inverse operator. No rule duplicates
    ``expensive`` nodes just to move past a fork. An operator that ``decides`` jumps when its inputs change in the last
    bit; a result with ``exact_grid`` is exactly on its grid, regardless of earlier rounding. ``keeps_zero``
    means that zero becomes zero, of the same sign and type. A ``place_dependent`` operator gives an element different
    bits at other positions in memory: vectorised code approximates differently from the code for remaining elements,
    and some broadcast loops lose the sign of zeros.
    """

    kind: Kind = "other"
    arity: int = 1
    commutative: bool = False
    associative: bool = False
    exact: bool = False
    idempotent: bool = False
    involution: bool = False
    monotone: int = 0
    parity: int = 0
    identity: Number | None = None
    annihilator: Number | None = None
    distributes_over: tuple[str, ...] = ()
    undoes: str = ""
    converse: str = ""
    complement: str = ""
    expensive: bool = False
    decides: bool = False
    exact_grid: bool = False
    keeps_zero: bool = False
    place_dependent: bool = False


TRAITS: Interface[Traits] = Interface(
    "traits",
    "its properties in common with other operators, such as its algebra",
    "onnx_passes.ops.facts.traits",
    "onnx_passes.ops.channels_last",
    "onnx_passes.ops.xnor_popcount_matmul",
)
_NOTHING = Traits()


def traits_of(node: ir.Node | str) -> Traits:
    """Return the traits of an operator; a name alone denotes an operator of ONNX itself."""
    return (TRAITS.named(node) if isinstance(node, str) else TRAITS.get(node)) or _NOTHING


def operators(kind: Kind | None = None, *, arity: int | None = None, **traits: object) -> tuple[str, ...]:
    """Return the standard operators with all given traits: ``operators("elementwise", arity=1, exact=True)``."""
    return tuple(
        name
        for name, known in TRAITS.standard().items()
        if (kind is None or known.kind == kind)
        and (arity is None or known.arity == arity)
        and all(getattr(known, trait) == value for trait, value in traits.items())
    )


def is_elementwise(node: ir.Node) -> bool:
    """Return whether every element of the result depends on one element of each input, broadcast."""
    return traits_of(node).kind == "elementwise"


def is_commutative(domain: str, op_type: str) -> bool:
    """Return whether the inputs of an operator may be swapped."""
    found = TRAITS.named(op_type, domain)
    return found is not None and found.commutative


def is_cheap(node: ir.Node) -> bool:
    """Return whether computing a node twice is cheap; unknown operators are cheap if they are standard."""
    found = TRAITS.get(node)
    return node.domain == "" if found is None else not found.expensive


def is_product(node: ir.Node) -> bool:
    """Return whether a node only multiplies and sums."""
    return traits_of(node).kind == "product"
