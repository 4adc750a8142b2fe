"""Decide whether two terms are the same for all values of their variables, or find values for which they are not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.number_systems import scalars, smt, values
from onnx_passes.ops.number_systems.rings import POLYNOMIAL
from onnx_passes.ops.number_systems.terms import CONSTANT, VARIABLE, Terms
from onnx_passes.proofs.excuses import ROUNDING, excuses, needed, unexcused
from onnx_passes.proofs.samples import Domain, all_inputs, some_inputs

Array = np.ndarray[Any, Any]
Status = Literal["same", "different", "unknown"]

OPAQUE = "functions that nothing is known of"
_COMPARISONS = frozenset({"Less", "LessOrEqual", "Equal"})
_MOST_TERMS = 400
"""Beyond that nobody waits for a solver."""


@dataclass
class Verdict:
    """What was found out of two terms, and how.

    Of different ones there is an ``example``, the ``flags`` that would excuse all differences seen, whether they do
    (``excused``), and how far ordinary inputs drive results apart, beside the largest of them.
    """

    status: Status
    method: str
    example: dict[int, Any] = field(default_factory=dict[int, Any])
    flags: frozenset[str] = frozenset()
    excused: bool = True
    apart: float | None = None


def decide(terms: Terms, a: int, b: int, domains: Mapping[int, Domain], *, solver: bool, seconds: float) -> Verdict:
    """Decide by trying all values where these are few, else some, then by the solver."""
    leaves = _leaves(terms, a, b)
    free = {leaf: terms.symbols[leaf].dtype for leaf in leaves}
    below = terms.below(a, b, leaves=free)
    if any(dtype is ir.DataType.STRING for dtype in free.values()):
        return Verdict("unknown", "texts")
    cut = any(terms.symbols[leaf].name != VARIABLE for leaf in leaves)
    constants = [terms.constants[term] for term in below if term in terms.constants]
    known = {leaf: domains[leaf] for leaf in leaves if leaf in domains}
    computable = all(term in free or values.has_value(terms, term) for term in below)
    tried = _tried(terms, a, b, free, known, constants, cut=cut) if computable else None
    if tried is not None and (tried.status != "unknown" or tried.example):
        return tried
    if not all(term in free or _is_plain(terms, term) for term in below):
        return tried or Verdict("unknown", OPAQUE)
    if not solver or not smt.is_available():
        return tried or Verdict("unknown", "no solver")
    if len(below) > _MOST_TERMS:
        return Verdict("unknown", "too large for the solver")
    return _solved(terms, a, b, free, known, seconds, cut=cut)


def _leaves(terms: Terms, a: int, b: int) -> list[int]:
    """Return variables, and what both terms contain but is only approximated, or not known at all."""
    common = set(terms.below(a)) & set(terms.below(b))
    opaque = {term for term in common if not _is_plain(terms, term)}
    return [term for term in terms.below(a, b, leaves=opaque) if term in opaque or terms.symbols[term].name == VARIABLE]


def _is_plain(terms: Terms, term: int) -> bool:
    symbol = terms.symbols[term]
    return symbol.name in (VARIABLE, CONSTANT, POLYNOMIAL) or scalars.is_settled(symbol)


def _tried(
    terms: Terms,
    a: int,
    b: int,
    free: Mapping[int, ir.DataType],
    domains: Mapping[int, Domain],
    constants: list[Array],
    *,
    cut: bool,
) -> Verdict | None:
    every = all_inputs(free, domains)
    inputs = every if every is not None else some_inputs(free, domains, constants)
    if every is None:
        inputs = _at_ties(terms, a, b, inputs, domains)
    if free and not len(next(iter(inputs.values()))):
        return Verdict("unknown", "no values to try")
    try:
        found = values.compute(terms, (a, b), inputs)
    except values.NoValueError:
        return None
    x, y = found.of[a], found.of[b]
    alike = values.same(x, y)
    wrong = np.flatnonzero(~alike & ~found.undefined)
    if not wrong.size:
        is_proof = every is not None and found.settled and not found.undefined.any()
        return Verdict("same" if is_proof else "unknown", "exhaustive" if is_proof else "no difference found")
    # What is only approximated may be equal after all, and what was cut off may never take such values.
    status: Status = "different" if found.settled and not cut else "unknown"
    return _different(status, "example", x, y, inputs, wrong)


def _different(status: Status, method: str, x: Array, y: Array, inputs: Mapping[int, Array], wrong: Array) -> Verdict:
    """Choose an example, if possible of a difference that rounding does not excuse."""
    found = excuses(x[wrong], y[wrong], [array[wrong] for array in inputs.values()])
    grave = np.flatnonzero(unexcused(found, ROUNDING))
    chosen = wrong[grave] if grave.size else wrong
    place = int(chosen[_plainest([array[chosen] for array in inputs.values()])])
    example = {leaf: array[place] for leaf, array in inputs.items()}
    everything = bool(unexcused(found, set(found)).any())
    return Verdict(status, method, example, needed(found), not everything, _apart(x, y, list(inputs.values())))


def _apart(x: Array, y: Array, inputs: list[Array]) -> float | None:
    """Tell how far results for ordinary inputs are apart, beside the largest of them."""
    if x.dtype.kind in "biu":
        return None
    with np.errstate(all="ignore"):
        a, b = x.astype(np.float64), y.astype(np.float64)
        plain = np.isfinite(a) & np.isfinite(b)
        for array in inputs:
            wide = np.abs(array.astype(np.float64))
            plain &= (wide <= 4) & ((wide >= 2.0**-10) | (wide == 0))
        if not plain.any():
            return None
        size = max(np.abs(a[plain]).max(), np.abs(b[plain]).max())
        return float(np.abs(a - b)[plain].max() / size) if size else 0.0


def _at_ties(terms: Terms, a: int, b: int, inputs: dict[int, Array], domains: Mapping[int, Domain]) -> dict[int, Array]:
    """Add inputs for which a comparison with a variable is just decided: the other side, and the numbers beside it."""
    for term in terms.below(a, b, leaves=inputs):
        symbol = terms.symbols[term]
        if symbol.name not in _COMPARISONS or term in inputs or not symbol.sources[0].is_floating_point():
            continue
        for variable, other in (terms.args[term], terms.args[term][::-1]):
            if variable not in inputs or other in inputs or other in terms.constants or variable in domains:
                continue
            try:
                tie = values.compute(terms, (other,), inputs).of[other]
            except values.NoValueError:
                continue
            beside = [tie, *(moved(tie, step) for step in (1, -1))]
            return {
                leaf: np.concatenate([array, *(beside if leaf == variable else [array] * 3)])
                for leaf, array in inputs.items()
            }
    return inputs


def moved(array: Array, step: int) -> Array:
    """Return the floats that come so many steps after others in the order of their bits."""
    bits = array.view(f"i{array.dtype.itemsize}")
    with np.errstate(all="ignore"):
        return (bits + np.asarray(step, bits.dtype)).view(array.dtype)


def _plainest(inputs: list[Array]) -> int:
    """Choose the example that reads best: finite, whole and small numbers."""
    if not inputs:
        return 0
    cost = np.zeros(len(inputs[0]))
    for array in inputs:
        with np.errstate(all="ignore"):
            wide = np.abs(array.astype(np.float64))
            cost += np.where(np.isfinite(wide), np.log2(1 + wide) + (wide != np.floor(wide)) * 4, 400)
    return int(np.argmin(cost))


def _solved(
    terms: Terms,
    a: int,
    b: int,
    free: Mapping[int, ir.DataType],
    domains: Mapping[int, Domain],
    seconds: float,
    *,
    cut: bool,
) -> Verdict:
    try:
        translation = smt.Translation(terms, free)
        z3 = translation.z3
        asked = z3.Solver(ctx=translation.context)
        asked.set("timeout", max(int(seconds * 1000), 1))
        for leaf, domain in domains.items():
            asked.add(translation.within(leaf, domain))
        asked.add(z3.Not(translation.equation(a, b)))
    except smt.NotExpressibleError as error:
        return Verdict("unknown", f"the solver has no theory of {error}")
    started = time.perf_counter()
    answer = str(asked.check())
    theory = "floats" if any(_has_floats(terms, term) for term in terms.below(a, b, leaves=free)) else "bit-vectors"
    if answer == "unsat":
        return Verdict("same", f"solver ({theory})")
    if answer == "unknown":
        return Verdict("unknown", f"the solver gave up after {time.perf_counter() - started:.1f} s")
    return _confirmed(terms, a, b, free, asked.model(), translation, cut=cut)


def _has_floats(terms: Terms, term: int) -> bool:
    return terms.symbols[term].dtype.is_floating_point()


def _confirmed(
    terms: Terms,
    a: int,
    b: int,
    free: Mapping[int, ir.DataType],
    model: Any,
    translation: smt.Translation,
    *,
    cut: bool,
) -> Verdict:
    """Compute what the solver found in the true types; what it does not confirm is not known."""
    inputs: dict[int, Array] = {}
    for leaf, dtype in free.items():
        number = model.eval(translation.of(leaf), model_completion=True)
        inputs[leaf] = np.array([smt_number(number, translation, dtype)]).astype(dtype.numpy())
    try:
        found = values.compute(terms, (a, b), inputs)
    except values.NoValueError:
        return Verdict("unknown", "a difference within functions that nothing is known of")
    x, y = found.of[a], found.of[b]
    if cut or not found.settled or found.undefined.any() or values.same(x, y).all():
        return Verdict("unknown", "a difference that could not be confirmed")
    return _different("different", "solver", x, y, inputs, np.zeros(1, np.int64))


def smt_number(number: Any, translation: smt.Translation, dtype: ir.DataType) -> Any:
    """Read a number that the solver found."""
    z3 = translation.z3
    if dtype is ir.DataType.BOOL:
        return z3.is_true(number)
    if dtype.is_integer():
        found = number.as_signed_long() if dtype.is_signed() else number.as_long()
        return np.asarray(found, np.int64 if dtype.is_signed() else np.uint64)
    if number.isNaN():
        return np.nan
    if number.isInf():
        return -np.inf if number.isNegative() else np.inf
    if number.isZero():
        return -0.0 if number.isNegative() else 0.0
    bits = z3.simplify(z3.fpToIEEEBV(number)).as_long()
    return np.array([bits], f"u{dtype.bitwidth // 8}").view(dtype.numpy())[0]
