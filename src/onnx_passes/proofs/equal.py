"""Prove that two models are the same, for all inputs of their shapes.

``prove_equal(before, after)`` answers with a ``Proof`` or says why there is none:

* Both models are evaluated symbolically (``symbolic.py``) over hash-consed terms (``terms.py``), whose normal forms
  hold bit by bit. Where all elements of the outputs are the same terms, the models are: ``proved-here``, by congruence.
* Pairs of elements that are left are grouped by their form and decided (``decide.py``): by trying all values where the
  variables have few, by an SMT solver (``smt.py``, if z3 is installed and ``solver`` is set), or refuted by an example
  in the true types.
* What is not the same bit by bit may be the same in real numbers (``real_numbers.py``): ``equal-in-reals``, by
  evaluation in finite fields, with a bound of the rounding.

``domains`` restricts what inputs hold, by name: ``{"x": Domain(-128, 127, step=1)}``. ``allow`` are the flags of fast
math that may be used: by default nothing but other rounding is excused, so that ``x · 0 → 0`` is refuted by infinity.
``effort`` bounds the time of the solver for each form. ``labels(model)`` (``labels.py``) is the cheap relative:
fingerprints of all elements, vectorised.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.algebra import Tensor, TooLargeError, UnsupportedError
from onnx_passes.ops.number_systems.bounds import unit
from onnx_passes.ops.number_systems.fingerprints import Fingerprints, Labels
from onnx_passes.ops.number_systems.real_functions import NO_OVERFLOW
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.decide import OPAQUE, Verdict, decide
from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.proof import Assumption, Proof, Unproved
from onnx_passes.proofs.real_numbers import assumed_of_reals, rounding, same_in_fields
from onnx_passes.proofs.runs import differ, drawn
from onnx_passes.proofs.samples import Domain, assumptions_of, interface_difference, paired_inputs, variables

Effort = Literal["quick", "normal", "thorough"]
SECONDS: Mapping[Effort, float] = {"quick": 0.3, "normal": 3.0, "thorough": 30.0}
"""How long the solver may think about one pair of terms, and half of what one evaluation of a model may take."""
_LEAST_SECONDS = 2.0
_MOST_FORMS = 24
_MOST_BOUNDED = 640
_MOST_VISITS = 400_000
"""Terms that are looked at to tell forms apart."""
_SAYS_NO_COLLISION = Assumption("two fingerprints of 64 bits do not collide")
_MOST_APART = 2.0**10
"""Units of rounding by which results for ordinary inputs may be apart where no bound is known."""


def prove_equal(
    before: ir.Model,
    after: ir.Model,
    *,
    effort: Effort = "normal",
    solver: bool = True,
    domains: Mapping[str, Domain] | None = None,
    allow: Collection[str] = ROUNDING,
) -> Proof | Unproved:
    """Prove that two models with the same interface and known shapes compute the same, or say why not."""
    try:
        inputs = paired_inputs(before, after)
        asked = _Question(before, after, inputs, domains or {}, frozenset(allow), SECONDS[effort])
        found = asked.answer(solver=solver)
        return found if isinstance(found, Proof) or found.refuted else asked.run(found)
    except UnsupportedError as error:
        return Unproved(str(error))
    except (ModelError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Arrays refuse shapes and axes that no model should have; engines may take them all the same.
        return Unproved(f"a model cannot be evaluated: {error}")


@dataclass
class _Question:
    """Two models, whose inputs are paired, and what may be taken for granted."""

    before: ir.Model
    after: ir.Model
    inputs: Sequence[int]
    domains: Mapping[str, Domain]
    allow: frozenset[str]
    seconds: float

    def answer(self, *, solver: bool) -> Proof | Unproved:
        """Try terms first, then real numbers."""
        terms = Terms()
        try:
            made = variables(terms, self.before)
            first, second = (Evaluation(model, terms, seconds=self._patience) for model in (self.before, self.after))
            a = first.outputs(made)
            b = second.outputs([made[index] for index in self.inputs])
        except TooLargeError as error:
            return self._large(str(error))
        different = interface_difference(self.before, a, b)
        if different:
            return Unproved(different, refuted=True)
        facts = [f"{name} is in {domain}" for name, domain in self.domains.items()]
        assumed = assumptions_of(terms, first, second)
        pairs = _different_pairs(terms, a, b)
        if not pairs:
            return Proof("proved-here", "congruence", tuple(facts), assumptions=assumed)
        forms, are_all = _forms(terms, pairs, self.domains)
        verdicts: list[Verdict] = []
        for one, other in forms[:_MOST_FORMS]:
            limits = self._limits(terms, one, other)
            verdicts.append(decide(terms, one, other, limits, solver=solver, seconds=self.seconds))
            if verdicts[-1].status == "different" and not verdicts[-1].excused:
                return self._refuted(terms, verdicts[-1], "")
        if are_all and len(forms) <= _MOST_FORMS and all(verdict.status == "same" for verdict in verdicts):
            method = ", ".join(sorted({v.method for v in verdicts}))
            return Proof("proved-here", method, tuple(facts), assumptions=assumed)
        open_forms = [form for form, verdict in zip(forms, verdicts, strict=False) if verdict.status != "same"]
        bounded = are_all and len(forms) <= _MOST_BOUNDED
        return self._in_reals(terms, [*open_forms, *forms[_MOST_FORMS:]], verdicts, facts, assumed, bounded=bounded)

    @property
    def _patience(self) -> float:
        return max(2 * self.seconds, _LEAST_SECONDS)

    def _limits(self, terms: Terms, a: int, b: int) -> dict[int, Domain]:
        if not self.domains:
            return {}
        return {
            term: self.domains[symbol.params[0]]
            for term in terms.below(a, b)
            if (symbol := terms.symbols[term]).name == VARIABLE and symbol.params[0] in self.domains
        }

    def _in_reals(
        self,
        terms: Terms,
        forms: Sequence[tuple[int, int]],
        verdicts: Sequence[Verdict],
        facts: list[str],
        assumed: tuple[Assumption, ...],
        *,
        bounded: bool,
    ) -> Proof | Unproved:
        """Prove what is not the same bit by bit in real numbers, if nothing but allowed flags tells it apart."""
        flags = frozenset[str]().union(*(verdict.flags for verdict in verdicts))
        worst = next((v for v in verdicts if v.status == "different" and not v.flags <= self.allow), None)
        worst = worst or next((v for v in verdicts if v.status == "different"), None)
        undecided = next((v for v in verdicts if v.status == "unknown"), None)
        why = f"not decided: {undecided.method}" if undecided is not None else "not decided"
        if any(not terms.symbols[a].dtype.is_floating_point() for a, _ in forms):
            return self._undecided(terms, worst, verdicts, why)
        same, real = False, tuple[str, ...]()
        for fold in (False, True):
            same, real = same_in_fields(self.before, self.after, self.inputs, fold=fold, seconds=self._patience)
            if same:
                break
        if NO_OVERFLOW in real and worst is not None:
            # The difference may be one of integers, which nothing excuses.
            return self._undecided(terms, worst, verdicts, why)
        bound, reason = None, "no bound: too many forms of terms"
        if bounded and (same or self._computes):
            bound, reason = rounding(terms, forms, self.domains, exactly=same, seconds=self._patience)
        if (not same and bound is None) or not flags <= self.allow:
            return self._undecided(terms, worst, verdicts, why)
        if bound is None and (reason.startswith("results") or _is_far(terms, forms, verdicts)):
            reason = reason if reason.startswith("results") else "results are far apart"
            found = "equal in real numbers, but rounding is amplified: " + reason
            return self._undecided(terms, worst, verdicts, found)
        if any(verdict.method == OPAQUE for verdict in verdicts):
            real = (*real, "special values were not tried")
            if any(differ(self.before, self.after, self.inputs, feeds) for feeds in drawn(self.before, 1)):
                return Unproved("equal in real numbers, but not as ONNX Runtime computes them")
        method = "finite fields" if same else "rational polynomials"
        more = [] if same else ["equal up to the rounding of constants"]
        if bound is not None:
            limits = "as given" if self.domains else "of at most 1"
            more.append(f"the bound holds for inputs {limits}")
        else:
            more.append(reason)
        assumed = (*assumed, *assumed_of_reals(real))
        return Proof("equal-in-reals", method, (*facts, *more), bound, _listed(flags), assumed)

    @property
    def _computes(self) -> bool:
        """Return whether a model rounds anything: constants that nobody computes are not off by rounding."""
        nodes = (node for model in (self.before, self.after) for node in model.graph)
        return any(
            node.op_type not in ("Constant", "Identity") and traits_of(node).kind != "movement" for node in nodes
        )

    def _undecided(self, terms: Terms, worst: Verdict | None, verdicts: Sequence[Verdict], why: str) -> Unproved:
        """Refute by a difference that is certain, or say what may be tried."""
        reason = why if why.startswith("equal") else ""
        if worst is not None:
            return self._refuted(terms, worst, reason)
        flags = _listed(frozenset[str]().union(*(verdict.flags for verdict in verdicts)))
        unsure = next((v for v in verdicts if v.example and not v.flags <= self.allow), None)
        unsure = unsure or next((v for v in verdicts if v.example), None)
        is_input = unsure is not None and all(terms.symbols[leaf].name == VARIABLE for leaf in unsure.example)
        return Unproved(why, flags=flags, example=self._example(terms, unsure) if unsure and is_input else None)

    def run(self, found: Unproved) -> Unproved:
        """Let ONNX Runtime decide what could not be: on a likely example, or on ordinary inputs."""
        likely = [] if found.example is None else [found.example]
        for feeds in (*likely, *(() if self.domains else drawn(self.before))):
            if differ(self.before, self.after, self.inputs, feeds):
                return Unproved(f"ONNX Runtime computes {told(feeds)}", True, found.flags, feeds)
        return Unproved(found.reason, flags=found.flags)

    def _large(self, why: str) -> Proof | Unproved:
        """Compare models that are too large for terms by fingerprints, then in finite fields."""
        try:
            if same_labels(self.before, self.after, self.inputs, self._patience):
                return Proof("proved-here", "congruence (fingerprints)", assumptions=(_SAYS_NO_COLLISION,))
            same, assumed = same_in_fields(self.before, self.after, self.inputs, fold=True, seconds=self._patience)
        except TooLargeError as error:
            return Unproved(f"too large: {error}")
        if not same:
            return Unproved(f"too large: {why}")
        assumptions = assumed_of_reals((*assumed, "special values and rounding were not looked at"))
        return Proof("equal-in-reals", "finite fields", (), None, ("reassoc",), assumptions)

    def _refuted(self, terms: Terms, verdict: Verdict, reason: str) -> Unproved:
        example = self._example(terms, verdict)
        told = (
            f"different for {', '.join(f'{n} = {_short(x)}' for n, x in example.items())}" if example else "different"
        )
        flags = _listed(verdict.flags) if verdict.excused else ()
        return Unproved(f"{reason}; {told}" if reason else told, refuted=True, flags=flags, example=example)

    def _example(self, terms: Terms, verdict: Verdict) -> dict[str, np.ndarray]:
        """Return inputs of the model for which the two differ; elements that do not matter are one."""
        found: dict[str, np.ndarray] = {}
        for value in self.before.graph.inputs:
            shape, dtype = static_shape(value), value.dtype
            assert shape is not None
            assert dtype is not None
            found[value.name or ""] = np.ones(shape, dtype.numpy())
        for leaf, number in verdict.example.items():
            name, index = terms.symbols[leaf].params
            found[name].reshape(-1)[index] = number
        return found


def _is_far(terms: Terms, forms: Sequence[tuple[int, int]], verdicts: Sequence[Verdict]) -> bool:
    """Tell whether ordinary inputs drive results further apart than rounding of a few steps does."""
    least = unit(terms.symbols[forms[0][0]].dtype)
    return any(verdict.apart is not None and verdict.apart > _MOST_APART * least for verdict in verdicts)


def _different_pairs(terms: Terms, a: Sequence[Tensor], b: Sequence[Tensor]) -> list[tuple[int, int]]:
    found: dict[tuple[int, int], None] = {}
    for one, other in zip(a, b, strict=True):
        x, y = one.elements(terms).reshape(-1), other.elements(terms).reshape(-1)
        wrong = x != y
        found.update(dict.fromkeys(zip(x[wrong].tolist(), y[wrong].tolist(), strict=True)))
    return list(found)


def _forms(
    terms: Terms, pairs: Sequence[tuple[int, int]], domains: Mapping[str, Domain]
) -> tuple[list[tuple[int, int]], bool]:
    """Return one pair of terms of each form, whatever their variables are called, and whether these are all."""
    found: dict[Any, tuple[int, int]] = {}
    visits = 0
    for a, b in pairs:
        form = _form(terms, a, b, domains)
        found.setdefault(form, (a, b))
        visits += len(form)
        if visits > _MOST_VISITS:
            return list(found.values()), len(pairs) == 1
    return list(found.values()), True


def _form(terms: Terms, a: int, b: int, domains: Mapping[str, Domain]) -> tuple[object, ...]:
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


def _listed(flags: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(flags))


def told(example: Mapping[str, np.ndarray]) -> str:
    """Say for which inputs results differ."""
    parts = ", ".join(f"{name} = {_short(array)}" for name, array in example.items())
    return f"different results for {parts}" if parts else "different results"


def _short(array: np.ndarray) -> str:
    flat = array.reshape(-1)
    if flat.size == 1:
        return str(flat[0])
    more = ", …" if flat.size > 4 else ""
    return "[" + ", ".join(str(number) for number in flat[:4]) + more + "]"


def labels(model: ir.Model, *, seed: int = 0) -> list[Labels]:
    """Return the fingerprints of the outputs of a model: equal ones mean equal values, bit by bit.

    Inputs are known by their names. Raises UnsupportedError or TooLargeError (``numbers.algebra``) where the sizes of
    something are not known, or there are too many elements.
    """
    algebra = Fingerprints(seed)
    return _outputs(model, algebra, variables(algebra, model), math.inf)


def _outputs(model: ir.Model, algebra: Fingerprints, inputs: Sequence[Tensor], seconds: float) -> list[Labels]:
    return [tensor.elements(algebra) for tensor in Evaluation(model, algebra, seconds=seconds).outputs(inputs)]


def same_labels(before: ir.Model, after: ir.Model, inputs: Sequence[int], seconds: float = math.inf) -> bool:
    """Tell whether two models have the same fingerprints, by two that are independent."""
    for seed in (0, 1):
        algebra = Fingerprints(seed)
        made = variables(algebra, before)
        a = _outputs(before, algebra, made, seconds)
        b = _outputs(after, algebra, [made[index] for index in inputs], seconds)
        if len(a) != len(b) or not all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)):
            return False
    return True
