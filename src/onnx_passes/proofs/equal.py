"""Prove that two models are the same, for all inputs of their shapes.

``prove_equal(before, after)`` answers with a ``Proof`` or says why there is none:

* Both models are evaluated symbolically (``symbolic.py``) over hash-consed terms (``terms.py``), whose normal forms
  hold bit by bit. Where all elements of the outputs are the same terms, the models are: ``proved-here``, by congruence.
* Pairs of elements that are left are grouped by their form and decided (``decide.py``): by trying all values where the
  variables have few, by an SMT solver (``smt.py``, if z3 is installed and ``solver`` is set), or refuted by an example
  in the true types.
* What is not the same bit by bit may be the same in real numbers: ``equal-in-reals``.

``domains`` restricts what inputs hold, by name: ``{"x": Domain(-128, 127, step=1)}``. ``effort`` bounds the time of the
solver for each form. ``labels(model)`` (``labels.py``) is the cheap relative: fingerprints of all elements, vectorised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.shapes import static_shape
from onnx_passes.proofs.algebra import Algebra, Tensor, TooLargeError, UnsupportedError
from onnx_passes.proofs.decide import Verdict, decide
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.samples import Domain
from onnx_passes.proofs.symbolic import Evaluation
from onnx_passes.proofs.terms import VARIABLE, Terms

Effort = Literal["quick", "normal", "thorough"]
SECONDS: Mapping[Effort, float] = {"quick": 0.3, "normal": 3.0, "thorough": 30.0}
"""How long the solver may think about one pair of terms."""
_MOST_FORMS = 24


def prove_equal(
    before: ir.Model,
    after: ir.Model,
    *,
    effort: Effort = "normal",
    solver: bool = True,
    domains: Mapping[str, Domain] | None = None,
) -> Proof | Unproved:
    """Prove that two models with the same interface and known shapes compute the same, or say why not."""
    try:
        inputs = paired_inputs(before, after)
    except UnsupportedError as error:
        return Unproved(str(error))
    terms = Terms()
    try:
        made = variables(terms, before)
        first, second = Evaluation(before, terms), Evaluation(after, terms)
        a = first.outputs(made)
        b = second.outputs([made[index] for index in inputs])
    except UnsupportedError as error:
        return Unproved(str(error))
    except TooLargeError as error:
        return Unproved(f"too large: {error}")
    different = interface_difference(before, a, b)
    if different:
        return Unproved(different, refuted=True)
    pairs = _different_pairs(terms, a, b)
    assumed = [*sorted(terms.assumed), *_places(first, second)]
    if not pairs:
        return Proof("proved-here", "congruence", tuple(assumed))
    verdict, methods = _decide_all(terms, pairs, domains or {}, before, solver=solver, seconds=SECONDS[effort])
    facts = [*(f"{name} is in {domain}" for name, domain in (domains or {}).items()), *assumed]
    if verdict is None:
        return Proof("proved-here", ", ".join(sorted(methods)), tuple(facts))
    if verdict.status == "different":
        example = _example(terms, verdict, before)
        return Unproved(_told(example, verdict), refuted=True, flags=tuple(sorted(verdict.flags)), example=example)
    return Unproved(f"not decided: {verdict.method}", flags=tuple(sorted(verdict.flags)))


def paired_inputs(before: ir.Model, after: ir.Model) -> list[int]:
    """Return for each input of the second model the place of the same one in the first, by name, else by order."""
    ours, theirs = before.graph.inputs, after.graph.inputs
    names = {value.name: index for index, value in enumerate(ours)}
    by_name = all(value.name in names for value in theirs)
    if not by_name and len(ours) != len(theirs):
        raise UnsupportedError("the models have different inputs")
    found = [names[value.name] if by_name else index for index, value in enumerate(theirs)]
    for value, index in zip(theirs, found, strict=True):
        other = ours[index]
        if value.dtype is not other.dtype or static_shape(value) != static_shape(other):
            raise UnsupportedError(f"the input '{value.name}' has another type or shape")
    return found


def variables(algebra: Algebra, model: ir.Model) -> list[Tensor]:
    """Make variables for the inputs of a model."""
    made: list[Tensor] = []
    for value in model.graph.inputs:
        shape, dtype = static_shape(value), value.dtype
        if shape is None or dtype is None:
            raise UnsupportedError(f"type or shape of '{value.name}' is not known")
        made.append(Tensor(dtype, None, algebra.variable(value.name or "", dtype, shape)))
    return made


def interface_difference(model: ir.Model, a: Sequence[Tensor], b: Sequence[Tensor]) -> str:
    """Say how the outputs differ in number, type or shape."""
    if len(a) != len(b):
        return f"{len(a)} outputs become {len(b)}"
    for value, one, other in zip(model.graph.outputs, a, b, strict=True):
        if one.dtype is not other.dtype:
            return f"'{value.name}' becomes {other.dtype.name}, and was {one.dtype.name}"
        if one.shape != other.shape:
            return f"'{value.name}' becomes {list(other.shape)}, and was {list(one.shape)}"
    return ""


def _different_pairs(terms: Terms, a: Sequence[Tensor], b: Sequence[Tensor]) -> list[tuple[int, int]]:
    found: dict[tuple[int, int], None] = {}
    for one, other in zip(a, b, strict=True):
        x, y = one.elements(terms).reshape(-1), other.elements(terms).reshape(-1)
        wrong = x != y
        found.update(dict.fromkeys(zip(x[wrong].tolist(), y[wrong].tolist(), strict=True)))
    return list(found)


def _places(first: Evaluation, second: Evaluation) -> list[str]:
    """Name operators of which elements have other neighbours than before."""
    moved = sorted({str(getattr(key[0], "name", "")) for key in first.places ^ second.places})
    return [f"{name} gives an element the same bits wherever it is" for name in moved]


def _decide_all(
    terms: Terms,
    pairs: Sequence[tuple[int, int]],
    domains: Mapping[str, Domain],
    model: ir.Model,
    *,
    solver: bool,
    seconds: float,
) -> tuple[Verdict | None, set[str]]:
    """Decide one pair of each form; returns the first that is not the same."""
    methods: set[str] = set()
    seen: dict[Any, Verdict] = {}
    undecided: Verdict | None = None
    for a, b in pairs:
        form = _form(terms, a, b, domains)
        if form in seen:
            continue
        if len(seen) >= _MOST_FORMS:
            return undecided or Verdict("unknown", f"more than {_MOST_FORMS} forms of terms"), methods
        limits = {
            term: domains[symbol.params[0]]
            for term in terms.below(a, b)
            if (symbol := terms.symbols[term]).name == VARIABLE and symbol.params[0] in domains
        }
        verdict = seen[form] = decide(terms, a, b, limits, solver=solver, seconds=seconds)
        if verdict.status == "different":
            return verdict, methods
        if verdict.status == "unknown":
            undecided = undecided or verdict
        else:
            methods.add(verdict.method)
    return undecided, methods


def _form(terms: Terms, a: int, b: int, domains: Mapping[str, Domain]) -> tuple[object, ...]:
    """Describe a pair of terms without the names of its variables."""
    below = terms.below(a, b)
    place = {term: index for index, term in enumerate(below)}
    found: list[object] = [place[a], place[b]]
    for term in below:
        symbol = terms.symbols[term]
        if symbol.name == VARIABLE:
            found.append((symbol.dtype, domains.get(symbol.params[0])))
        else:
            found.append((symbol, tuple(place[arg] for arg in terms.args[term])))
    return tuple(found)


def _example(terms: Terms, verdict: Verdict, model: ir.Model) -> dict[str, np.ndarray]:
    """Return inputs of the model for which the two differ; elements that do not matter are one."""
    found: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        shape, dtype = static_shape(value), value.dtype
        assert shape is not None
        assert dtype is not None
        found[value.name or ""] = np.ones(shape, dtype.numpy())
    for leaf, number in verdict.example.items():
        symbol = terms.symbols[leaf]
        name, index = symbol.params
        found[name].reshape(-1)[index] = number
    return found


def _told(example: Mapping[str, np.ndarray], verdict: Verdict) -> str:
    """Say for which inputs the two differ."""
    parts = [f"{name} = {_short(array)}" for name, array in example.items()]
    return f"different for {', '.join(parts)}" if parts else "different constants"


def _short(array: np.ndarray) -> str:
    if array.size == 1:
        return str(array.reshape(-1)[0])
    flat = array.reshape(-1)
    more = ", …" if flat.size > 4 else ""
    return "[" + ", ".join(str(number) for number in flat[:4]) + more + "]"
