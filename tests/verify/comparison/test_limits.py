"""Limits at exactly their ends: what is as far as allowed holds, and what is one float further does not."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.base import Analysis, Annotation, PassResult, Transformation
from onnx_passes.core.claims import Claim
from onnx_passes.verify.comparison import ulp
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import (
    DEFAULT,
    Limits,
    Promise,
    claim_of,
    limits_of,
    promise_of,
    share_of_bound,
)

TOLERANCE, METRIC, EQUALITY = Claim("tolerance"), Claim("metric"), Claim("equality")
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


class Named(Transformation):
    """A pass of claims and flags."""

    def __init__(self, *claims: Claim, flags: tuple[str, ...] = (), name: str = "planted") -> None:
        super().__init__()
        self.claims, self.fast_math, self._name = claims, flags, name

    @property
    def name(self) -> str:
        return self._name

    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=False)


class Looks(Analysis):
    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=False)


class Notes(Annotation):
    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=False)


def share(expected, found, atol=0.0, rtol=0.0, rounding=0.0, dtype=np.float64) -> list[float]:
    arrays = np.array(expected, dtype), np.array(found, dtype)
    return share_of_bound(*arrays, atol, rtol, rounding).tolist()


def test_shares_are_the_parts_of_the_bound():
    rng = np.random.default_rng(0)
    a, b, more = rng.normal(size=(3, 200)) * 10.0 ** rng.integers(-4, 4, (3, 200))
    for atol, rtol in ((0.0, 0.5), (0.25, 0.0), (0.125, 2.0)):
        for rounding in (np.zeros(200), np.abs(more)):
            exact = [
                abs(Fraction(y) - Fraction(x)) / (Fraction(atol) + Fraction(rtol) * abs(Fraction(x)) + Fraction(r))
                for x, y, r in zip(a.tolist(), b.tolist(), rounding.tolist(), strict=True)
            ]
            np.testing.assert_allclose(share_of_bound(a, b, atol, rtol, rounding), np.array(exact, float), rtol=1e-12)


def test_no_bound_helps_where_a_number_is_none():
    inf, nan = math.inf, math.nan
    pairs = [(nan, 1), (1, nan), (inf, 1), (1, inf), (inf, -inf), (-inf, inf), (nan, inf), (inf, nan)]
    expected, found = zip(*pairs, strict=True)
    for bound in ((0, 0, 0), (1e300, 1e300, 1e300), (inf, 0, 0), (0, 0, inf)):
        assert share(expected, found, *bound) == [inf] * len(pairs)
    same = [nan, inf, -inf, 0.0, -0.0, 7.0]
    assert share(same, same) == [0.0] * len(same)
    assert share([0.0, -0.0], [-0.0, 0.0]) == [0.0, 0.0]
    assert share([1.0, 0.0], [2.0, 5e-324]) == [inf, inf]
    assert share([1j, 1j], [1j + 3, 2j], 1.0, dtype=np.complex128) == [3.0, 1.0]


@pytest.mark.parametrize("dtype", [bool, object])
def test_what_is_no_number_is_equal_or_infinitely_far(dtype: object):
    values = [True, False] if dtype is bool else ["a", "b"]
    assert share(values, [values[0]] * 2, 1e9, 1e9, 1e9, dtype) == [0.0, math.inf]


def test_every_element_has_its_own_rounding_in_every_piece(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ulp, "_CHUNK", 3)
    expected, rounding = np.ones((2, 4)), np.arange(1, 9.0).reshape(2, 4)
    found = expected + rounding * 0.5
    assert (share_of_bound(expected, found, 0, 0, rounding) == 0.5).all()
    assert share_of_bound(expected, found, 0, 0, rounding).shape == (2, 4)
    assert np.allclose(share_of_bound(expected, found, 0, 0.5, 0.0), rounding)


@pytest.mark.parametrize("dtype", EPS)
def test_types_of_less_precision_have_wider_limits_unless_they_were_given(dtype: str):
    eps = EPS[dtype]
    found = DEFAULT.of(np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype))
    assert (found.atol, found.rtol) == (max(1e-5, eps), max(1e-4, 8 * eps))
    assert Limits(1e-5, 1e-4).of(np.dtype(np.float16)) == Limits(1e-5, 1e-4)
    assert DEFAULT.of(np.dtype(np.int8)) == DEFAULT


def test_what_somebody_gave_is_not_widened():
    assert Limits.asked(None, None) is DEFAULT
    assert Limits.asked(0.0, None) == Limits(0.0, 1e-4, given=True)
    assert Limits.asked(None, 0.0) == Limits(1e-5, 0.0, given=True)
    assert (DEFAULT.pair, Limits(1, 2).pair) == (None, (1, 2))
    assert Limits.widest([Limits(1, 4), Limits(2, 3)]) == Limits(2, 4, given=True)
    assert not Limits.widest([Limits(1, 4), Limits(2, 3, given=False)]).given


def _holds(promise: Promise, expected: object, found: object, rounding: object = None, dtype: object = None) -> bool:
    compared = compare({"y": np.asarray(expected, dtype)}, {"y": np.asarray(found, dtype)})
    given = {} if rounding is None else {"y": np.asarray(rounding)}
    holds = promise.holds(compared, given)
    assert holds == (promise.broken(compared, given) is None)
    return holds


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("value", [0.0, 1.0, -8.0])
def test_a_tolerance_ends_where_it_says(dtype: str, given: bool, value: float):
    atol, rtol = (2.0**-6, 2.0**-5) if given else (max(1e-5, EPS[dtype]), max(1e-4, 8 * EPS[dtype]))
    promise = Promise(TOLERANCE, Limits(atol, rtol) if given else DEFAULT)
    scalar = np.dtype(dtype).type
    bound = Fraction(atol) + Fraction(rtol) * abs(Fraction(value))
    for sign in (-1, 1):
        end = scalar(value + sign * float(bound))
        inside = end if abs(Fraction(float(end)) - Fraction(value)) <= bound else np.nextafter(end, scalar(value))
        outside = np.nextafter(inside, scalar(sign * np.inf))
        assert _holds(promise, [value], [inside], dtype=dtype)
        assert not _holds(promise, [value], [outside], dtype=dtype)
        # With what rounding may do, it is wider by just that.
        further = scalar(value + sign * (float(bound) + 0.5))
        assert _holds(promise, [value], [scalar(value + sign * (float(bound) + 0.49))], [0.5], dtype)
        assert not _holds(promise, [value], [np.nextafter(further, scalar(sign * np.inf)) + sign], [0.5], dtype)


def test_one_element_beyond_is_enough():
    promise = Promise(TOLERANCE, Limits(1.0, 0.0))
    for place in range(5):
        found = np.zeros(5)
        found[place] = 1.5
        assert not _holds(promise, np.zeros(5), found)
        rounding = np.zeros(5)
        assert not _holds(promise, np.zeros(5), found, rounding)
        rounding[place] = 0.5
        assert _holds(promise, np.zeros(5), found, rounding)
        assert not _holds(promise, np.zeros(5), found, np.roll(rounding, 1))


def test_equality_is_no_wider_by_rounding():
    assert not _holds(Promise(EQUALITY, None), [0.0], [1e-30], [1.0])
    assert not _holds(Promise(EQUALITY, None), [0.0], [-0.0], [1.0])
    unsigned = Promise(EQUALITY, Limits(0, 0))
    assert _holds(unsigned, [0.0], [-0.0], [1.0])
    assert not _holds(unsigned, [0.0], [1e-30], [1.0])
    assert not _holds(unsigned, [np.nan], [1.0], [1.0])


@pytest.mark.parametrize("claim", [EQUALITY, TOLERANCE, METRIC])
def test_the_interface_is_promised_by_everyone(claim: Claim):
    promise = Promise(claim, None if claim is EQUALITY else Limits(1e9, 1e9))
    one = np.zeros(2, np.float32)
    for other in (np.zeros(3, np.float32), np.zeros(2, np.float64), np.zeros((2, 1), np.float32)):
        assert not promise.holds(compare({"y": one}, {"y": other}))
        assert not promise.holds(compare({"y": one}, {"y": other}), {"y": np.full(2, 1e9)})
    assert not promise.holds(compare({"y": one}, {"z": one}))
    assert not promise.holds(compare({"y": one, "z": one}, {"z": one, "y": one}))
    assert promise.holds(compare({"y": one}, {"y": one.copy()}))
    assert promise.holds(compare({"y": one}, {"y": one + 1})) == (claim is not EQUALITY)
    # The first tensor is as promised, the second is not.
    pair = compare({"x": one, "y": one}, {"x": one, "y": np.zeros(3, np.float32)})
    broken = promise.broken(pair)
    assert broken is not None
    assert broken.name == "y"


def test_the_share_is_the_greatest_of_all_tensors():
    promise = Promise(TOLERANCE, Limits(1.0, 0.0))
    zero = np.zeros(2)
    found = {"a": np.array([0.25, 0.5]), "b": np.array([0.0, 0.75]), "c": zero}
    compared = compare(dict.fromkeys("abc", zero), found)
    assert promise.share(compared) == 0.75
    assert promise.share(compared, {"b": np.array([0.0, 2.0])}) == 0.5
    assert promise.share(compare({"a": zero}, {"a": zero})) == 0
    assert Promise(EQUALITY, None).share(compared) == math.inf
    assert Promise(EQUALITY, None).share(compare({"a": zero}, {"a": zero})) == 0
    assert promise.share(compare({"a": zero}, {"a": np.zeros(3)})) == math.inf
    assert promise.part(0.75).limits == Limits(0.25, 0.0)
    assert Promise(TOLERANCE, Limits(4.0, 8.0)).part(0.25).limits == Limits(3.0, 6.0)
    assert promise.part(3.0).limits == Limits(0.0, 0.0)


def test_what_is_told_of_a_tensor_is_its_element_furthest_beyond():
    promise = Promise(TOLERANCE, Limits(0.0, 0.25))
    (one,) = compare({"y": np.array([100.0, 1.0, 8.0])}, {"y": np.array([120.0, 2.0, 11.0])}).tensors
    assert promise.describe(one).startswith("y[1]: expected 1.0, found 2.0")
    assert "2 by more than the tolerance" in promise.describe(one)
    assert promise.describe(one, {"y": np.array([0.0, 9.0, 0.0])}).startswith("y[2]:")


def test_a_shorter_type_widens_only_a_tolerance_that_nobody_gave():
    unit = 2.0**-10
    wide = Promise(TOLERANCE, DEFAULT).in_type(unit)
    assert (wide.limits, wide.unit) == (Limits(unit, 8 * unit, given=False), unit)
    given = Promise(TOLERANCE, Limits(1e-5, 1e-4)).in_type(unit)
    assert (given.limits, given.unit) == (Limits(1e-5, 1e-4), unit)
    assert wide.in_type(unit / 2) is wide
    for promise in (Promise(EQUALITY, None), Promise(EQUALITY, Limits(0, 0)), Promise(METRIC, DEFAULT)):
        assert promise.in_type(unit) is promise


def test_together_passes_promise_what_the_weakest_does():
    for claims in itertools.permutations((EQUALITY, TOLERANCE, METRIC)):
        assert promise_of([Named(claim) for claim in claims], Limits()).claim.kind == "metric"
        weaker = [claim for claim in claims if claim is not METRIC]
        assert promise_of([Named(claim) for claim in weaker], Limits()).claim.kind == "tolerance"
    strict = promise_of([Named(EQUALITY), Named(EQUALITY)], Limits())
    assert (strict.claim.kind, strict.limits) == ("equality", None)
    wide = [Named(Claim("tolerance", {"atol": atol, "rtol": rtol})) for atol, rtol in ((1, 0.5), (2, 0.25))]
    assert promise_of(wide, Limits()).limits == Limits(2, 0.5)
    assert promise_of([*wide, Named(EQUALITY)], Limits()).limits == Limits(2, 0.5)


def test_flags_of_all_passes_are_left_out_and_signs_of_zeros_only_by_nsz():
    found = promise_of([Named(EQUALITY, flags=("nnan",)), Named(EQUALITY, flags=("nsz",))], Limits())
    assert (found.ignores, found.limits) == ({"nnan", "nsz"}, Limits(0, 0))
    assert promise_of([Named(EQUALITY, flags=("nnan", "ninf"))], Limits()).limits is None


def test_a_check_by_itself_promises_nothing():
    check = Named(EQUALITY, name="verify")
    assert claim_of(check).kind == "tolerance"
    assert promise_of([check, Named(EQUALITY)], Limits()).claim.kind == "equality"
    assert promise_of([check], Limits()).claim.kind == "tolerance"


def test_what_claims_nothing_is_held_to_its_kind():
    assert claim_of(Named()).kind == "tolerance"
    assert claim_of(Looks()).kind == claim_of(Notes()).kind == "equality"
    assert claim_of(Named(Claim("structure"), METRIC)).kind == "metric"
    assert claim_of(Named(Claim("structure"))).kind == "tolerance"


def test_a_claim_says_as_much_of_limits_as_it_says():
    limits = Limits(1e-3, 1e-2)
    assert limits_of(Claim("tolerance", {"atol": 0.5}), limits) == Limits(0.5, 1e-2)
    assert limits_of(Claim("tolerance", {"rtol": 0.5}), limits) == Limits(1e-3, 0.5)
    assert limits_of(Claim("metric", {"atol": 0.5}), limits) == limits
    assert limits_of(Claim("tolerance", {"atol": 0.5}), DEFAULT).given == DEFAULT.given
