from __future__ import annotations

import math
import tracemalloc
import warnings
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison import ulp
from onnx_passes.verify.comparison.compare import Comparison, TensorComparison, TensorStatus, compare, compare_tensor

FLOATS = [
    "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn",
]  # fmt: skip
SMALL_FLOATS = [name for name in FLOATS if name not in ("float32", "float64")]
INTEGERS = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "int2", "uint2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ulp, "_CHUNK", 3)


def tensor(expected: object, found: object, dtype: object = None) -> TensorComparison:
    comparison = compare({"y": np.asarray(expected, dtype)}, {"y": np.asarray(found, dtype)})
    (only,) = comparison.tensors
    assert comparison.equal == only.equal
    assert comparison.first is (None if only.equal else only)
    return only


def all_values(dtype: str) -> np.ndarray:
    """Every bit pattern of a small type once."""
    width = ml_dtypes.finfo(dtype).bits
    return np.arange(1 << width, dtype=f"u{np.dtype(dtype).itemsize}").view(dtype)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        np.testing.assert_array_equal(a, b, strict=True)
    except AssertionError:
        return False
    return bool((np.signbit(a) == np.signbit(b))[~np.isnan(a)].all())


# Interface


def test_equal_results_are_equal() -> None:
    results = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True]), "c": np.array("x", object)}
    comparison = compare(results, {name: array.copy() for name, array in results.items()})
    assert comparison.equal
    assert comparison.first is None
    assert (comparison.max_abs, comparison.max_rel, comparison.max_ulp) == (0, 0, 0)
    assert comparison.within()
    assert comparison.describe() == "3 tensors equal bit by bit"


def test_nothing_equals_nothing() -> None:
    assert compare({}, {}).equal
    assert compare({}, {}).max_abs is None


def test_a_missing_output_is_a_difference() -> None:
    x = np.zeros(2)
    comparison = compare({"a": x, "b": x}, {"b": x})
    assert [t.status for t in comparison.tensors] == [TensorStatus.MISSING, TensorStatus.EQUAL]
    assert not comparison.within(1e9, 1e9)
    assert comparison.describe() == "a: missing"


def test_an_unexpected_output_is_a_difference() -> None:
    x = np.zeros(2)
    comparison = compare({"b": x}, {"a": x, "b": x})
    assert [(t.name, t.status) for t in comparison.tensors] == [("b", "equal"), ("a", "unexpected")]
    assert not comparison.equal
    assert not comparison.within(1e9, 1e9)


def test_a_renamed_output_is_missing_and_unexpected() -> None:
    comparison = compare({"a": np.zeros(2)}, {"b": np.zeros(2)})
    assert comparison.describe() == "a: missing\nb: unexpected"


def test_order_counts() -> None:
    x = np.zeros(2)
    comparison = compare({"a": x, "b": x, "c": x}, {"b": x, "a": x, "c": x})
    assert [t.status for t in comparison.tensors] == ["out of place", "out of place", "equal"]
    assert not comparison.within(1e9, 1e9)
    assert comparison.tensors[0].message() == "a: out of place, expected as number 1, found as number 2"


def test_dtype_counts() -> None:
    one = compare({"y": np.zeros((1, 3), np.float32)}, {"y": np.zeros((1, 3))}).tensors[0]
    assert one.status == "dtype differs"
    assert one.message() == "y: dtype differs, expected float32[1, 3], found float64[1, 3]"
    assert not one.within(1e9)


@pytest.mark.parametrize("shapes", [((1, 3), (3,)), ((), (1,)), ((2, 0), (0, 2)), ((3,), (1,)), ((2, 3), (3, 2))])
def test_shapes_are_never_broadcast(shapes: tuple[tuple[int, ...], ...]) -> None:
    one = tensor(np.zeros(shapes[0]), np.zeros(shapes[1]))
    assert one.status == "shape differs"
    assert not one.within(1e9)


def test_interface_is_reported_before_values() -> None:
    comparison = compare({"a": np.zeros(2), "b": np.zeros(2)}, {"a": np.ones(2), "b": np.zeros(1)})
    assert [t.status for t in comparison.tensors] == ["values differ", "shape differs"]
    assert comparison.first is comparison.tensors[1]
    assert comparison.describe().splitlines()[0].startswith("b: shape differs")


def test_maxima_are_over_all_tensors() -> None:
    expected = {"a": np.array([1.0, 2.0]), "b": np.array([100]), "c": np.array([True])}
    found = {"a": np.array([1.5, 2.0]), "b": np.array([107]), "c": np.array([False])}
    comparison = compare(expected, found)
    assert (comparison.max_abs, comparison.max_rel) == (7, 0.5)
    assert comparison.max_ulp == 2**51


def test_long_descriptions_are_cut() -> None:
    expected = {str(n): np.array(n) for n in range(30)}
    lines = compare(expected, {name: array + 1 for name, array in expected.items()}).describe().splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 20 more tensors"


def test_types_that_no_model_has_are_refused() -> None:
    with pytest.raises(UsageError, match="datetime64"):
        compare({"y": np.array(["2020-01-01"], "datetime64[D]")}, {})


# Values


def test_message_names_the_worst_element() -> None:
    expected = np.ones((2, 5), np.float32)
    found = expected.copy()
    expected[0, 3], found[0, 3] = 1.25, 1.5
    found[1] = np.nextafter(np.float32(1), np.float32(2))
    found[0, 2] = 1.0001
    one = tensor(expected, found)
    assert (
        one.message() == "y[0, 3]: expected 1.25, found 1.5 (abs 0.25, rel 0.2, 2097152 ulp); 7 of 10 elements differ"
    )
    assert one.first is not None
    assert one.worst is not None
    assert (one.first.index, one.worst.index, one.worst.expected, one.worst.found) == ((0, 2), (0, 3), 1.25, 1.5)
    assert (one.differing, one.total) == (7, 10)


@pytest.mark.parametrize(
    ("expected", "found", "dtype", "message"),
    [
        (0.1, 0.2, "float32", "y: expected 0.1, found 0.2 (abs 0.1, rel 1, 8388608 ulp); 1 of 1 element differs"),
        (0, 2**63, "uint64", f"y: expected 0, found {2**63} (abs {2**63}, rel inf); 1 of 1 element differs"),
        ([1, 2], [1, -2], "int4", "y[1]: expected 2, found -2 (abs 4, rel 2); 1 of 2 elements differs"),
        ([True], [False], "bool", "y[0]: expected True, found False; 1 of 1 element differs"),
        (["a", "b"], ["a", "c"], object, "y[1]: expected 'b', found 'c'; 1 of 2 elements differs"),
        ([1.0], [math.nan], "float16", "y[0]: expected 1.0, found nan; 1 of 1 element differs, 1 by NaN"),
        ([1.0], [-math.inf], "bfloat16", "y[0]: expected 1.0, found -inf; 1 of 1 element differs, 1 by infinity"),
        ([0.0, 1], [-0.0, 1], "float64", "y[0]: expected 0.0, found -0.0; signed zeros differ in 1 of 2 elements"),
        ([0.0, 1], [-0.0, 2], "float8_e5m2",
         "y[1]: expected 1.0, found 2.0 (abs 1, rel 1, 4 ulp); 2 of 2 elements differ, 1 by signed zero"),
        ([1j], [1 + 1j], "complex64", "y[0]: expected 1j, found (1+1j) (abs 1, rel 1); 1 of 1 element differs"),
    ],
)  # fmt: skip
def test_messages(expected: object, found: object, dtype: object, message: str) -> None:
    assert tensor(expected, found, dtype).message() == message


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_equals_nan_whatever_its_payload(dtype: str) -> None:
    if dtype in SMALL_FLOATS:
        nans = all_values(dtype)
        with np.errstate(invalid="ignore"):
            nans = nans[np.isnan(nans)]
    else:
        width = 8 * np.dtype(dtype).itemsize
        infinity = np.array(np.inf, dtype).view(f"u{width // 8}").item()
        bits = [infinity + 1, infinity + 12345, (1 << (width - 1)) + infinity + 1, (1 << width) - 1]
        nans = np.array(bits, f"u{width // 8}").view(dtype)
    for nan in nans[:: 1 + len(nans) // 8]:
        assert compare({"y": nans}, {"y": np.full(len(nans), nan)}).equal


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_small_floats_agree_with_an_elementwise_comparison(dtype: str) -> None:
    values = all_values(dtype)[:: 1 if np.dtype(dtype).itemsize == 1 else 499]
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ulp, "_CHUNK", 1 << 17)
        one = tensor(a, b)
    with np.errstate(all="ignore"):
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        nans = np.isnan(wide_a), np.isnan(wide_b)
        zeros = (wide_a == wide_b) & (np.signbit(wide_a) != np.signbit(wide_b))
        apart = (wide_a != wide_b) & ~(nans[0] & nans[1])
        infinite = apart & ~nans[0] & ~nans[1] & (np.isinf(wide_a) | np.isinf(wide_b))
        finite = apart & np.isfinite(wide_a) & np.isfinite(wide_b)
        distance = np.abs(wide_a - wide_b)[finite].max()
    assert one.differing == (apart | zeros).sum()
    assert (one.nan, one.infinite, one.signed_zeros) == ((nans[0] != nans[1]).sum(), infinite.sum(), zeros.sum())
    assert one.max_abs == (math.inf if one.nan or one.infinite else distance)


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours_are_one_ulp_apart(dtype: str) -> None:
    if dtype in SMALL_FLOATS:
        values = all_values(dtype)
        with np.errstate(invalid="ignore"):
            values = values[np.isfinite(values)]
    else:
        info = np.finfo(dtype)
        starts = np.array([info.min, -1, -info.smallest_subnormal, 0, info.smallest_subnormal, 1, 3], dtype)
        values = np.concatenate([starts, np.nextafter(starts, np.array(np.inf, dtype))])
    values = np.unique(values.astype(np.float64)).astype(dtype)
    numbers = [int(n) for n in ulp.ordered(values)]
    assert numbers == sorted(set(numbers))
    if dtype in SMALL_FLOATS:
        assert set(np.diff(numbers)) == {1}
    else:
        up = np.nextafter(values, np.array(np.inf, dtype))
        assert (ulp.ulp_distance(values, up) == 1).all()
    assert tensor(values[:1], values[-1:]).max_ulp == numbers[-1] - numbers[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ulp_from_end_to_end_does_not_overflow(dtype: str) -> None:
    info = np.finfo(dtype)
    infinity = np.array(np.inf, dtype).view(f"u{np.dtype(dtype).itemsize}").item()
    assert tensor([info.min], [info.max], dtype).max_ulp == 2 * (infinity - 1)


def test_distances_beyond_the_greatest_float_do_not_warn() -> None:
    most = np.finfo(np.float64).max
    one = tensor([most, 1.0], [-most, 1.0])
    assert one.max_abs == math.inf
    assert one.max_rel == 2
    assert (one.nan, one.infinite) == (0, 0)
    assert one.within(rtol=2)
    assert not one.within(rtol=1.5)
    assert not one.within(atol=most, rtol=0.5)
    assert one.within(atol=most, rtol=1)


def test_infinities_count() -> None:
    inf = math.inf
    assert tensor([inf, -inf], [inf, -inf]).equal
    one = tensor([inf, -inf, 1, inf, inf], [-inf, inf, inf, 1, inf])
    assert (one.differing, one.infinite, one.nan) == (4, 4, 0)
    assert (one.max_abs, one.max_rel, one.max_ulp) == (inf, inf, 2**64)
    assert not one.within(1e300, 1e300)
    assert not tensor([1e300], [inf]).within(1e300, 1e300)


def test_nan_against_a_number_is_infinitely_far() -> None:
    one = tensor([1.0, math.nan, math.inf], [math.nan, 1.0, math.nan], np.float32)
    assert (one.nan, one.infinite, one.max_abs, one.max_ulp) == (3, 0, math.inf, 2**32)
    assert not one.within(1e300, 1e300)


def test_signed_zeros_count_but_are_within_any_tolerance() -> None:
    one = tensor([0.0, -0.0, 0.0], [-0.0, 0.0, 0.0])
    assert (one.status, one.differing, one.signed_zeros) == ("values differ", 2, 2)
    assert (one.max_abs, one.max_rel, one.max_ulp) == (0, 0, 0)
    assert one.within(0, 0)
    assert one.first is not None
    assert (one.first.abs, one.first.rel, one.first.ulp) == (0, 0, 0)
    assert math.copysign(1, one.first.found) == -1  # type: ignore[arg-type]


def test_bits_outside_of_narrow_types_do_not_count() -> None:
    for dtype in ("int4", "uint4", "int2", "float4_e2m1fn"):
        clean = np.array([1], np.uint8).view(dtype)
        dirty = np.array([1 | 0xF0], np.uint8).view(dtype)
        assert compare({"y": clean}, {"y": dirty}).tensors[0].differing == 0


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_parts_count_each(dtype: str) -> None:
    nan = math.nan
    assert tensor([complex(nan, 1)], [complex(nan, 1)], dtype).equal
    assert tensor([complex(nan, 1)], [complex(nan, 2)], dtype).max_abs == 1
    assert tensor([complex(nan, 1)], [complex(1, nan)], dtype).nan == 1
    assert tensor([complex(0, 0.0)], [complex(0, -0.0)], dtype).signed_zeros == 1
    one = tensor([3 + 4j, 0], [0, 0], dtype)
    assert (one.max_abs, one.max_rel, one.max_ulp) == (5, 1, None)
    assert one.within(5)
    assert not one.within(4.9)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_distances_are_exact(dtype: str) -> None:
    info = ml_dtypes.iinfo(dtype)
    one = tensor([info.min, 1, 0], [info.max, 1, 1], dtype)
    assert one.max_abs == info.max - info.min
    assert isinstance(one.max_abs, int)
    assert one.max_ulp is None
    assert one.first is not None
    assert (one.first.expected, one.first.found, one.differing) == (info.min, info.max, 2)
    assert one.within(2.0**64)
    assert not tensor([1], [0], dtype).within(0.5)
    assert not tensor([1], [0], dtype).within(0.0, 0.5)
    assert tensor([1], [0], dtype).within(0.5, 0.5)


@pytest.mark.parametrize("rtol", [0.0, 2.0**-60])
def test_integer_tolerance_sees_the_last_bit(rtol: float) -> None:
    one = tensor([0], [2**63 + 1], np.uint64)
    assert not one.within(2.0**63, rtol)
    assert tensor([0], [2**63], np.uint64).within(2.0**63, rtol)


@pytest.mark.parametrize("dtype", [bool, object])
def test_booleans_and_strings_know_no_tolerance(dtype: object) -> None:
    values = [True, False] if dtype is bool else ["1", "2"]
    one = tensor(values, values[::-1], dtype)
    assert (one.differing, one.max_abs, one.max_rel, one.max_ulp) == (2, None, None, None)
    assert not one.within(1e9, 1e9)


def test_the_message_of_one_string_names_it() -> None:
    one = tensor(["a", "b", "c"], ["x", "b", "y"], object)
    assert one.message((2,)) == "y[2]: expected 'c', found 'y'; 2 of 3 elements differ"


def test_strings_are_equal_in_any_storage() -> None:
    texts = ["ä", "b", ""]
    encoded = np.array([t.encode() for t in texts], object)
    for other in (np.array(texts), encoded):
        assert compare({"y": np.array(texts, object)}, {"y": other}).equal
    assert tensor(np.array(texts, object), np.array(["ä", "b", "c"])).differing == 1


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool", "object", "complex64"])
def test_zero_size_and_rank_0(dtype: str) -> None:
    assert tensor(np.zeros((2, 0), dtype), np.zeros((2, 0), dtype)).equal
    fill = {"object": ("a", "b"), "int2": (0, 1), "bool": (False, True)}.get(dtype, (1, 2))
    a, b = (np.array(value).astype(dtype) for value in fill)
    assert tensor(a, a.copy()).equal
    one = tensor(a, b)
    assert one.worst is not None
    assert (one.worst.index, one.total, one.differing) == ((), 1, 1)


def test_layout_and_byte_order_in_memory_do_not_count() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert compare({"y": a.transpose(2, 0, 1)}, {"y": np.ascontiguousarray(a.transpose(2, 0, 1))}).equal
    assert compare({"y": a}, {"y": a.astype(">f4")}).equal
    b = a.copy()
    b[1, 2, 0] = -1
    one = tensor(a.transpose(2, 0, 1), b.transpose(2, 0, 1))
    assert one.first is not None
    assert one.first.index == (0, 1, 2)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_tolerances_are_refused(bad: float) -> None:
    for bounds in ((bad, 0.0), (0.0, bad)):
        with pytest.raises(UsageError, match="tolerance"):
            compare({"y": np.zeros(1)}, {"y": np.zeros(1)}).within(*bounds)


def edge_floats(dtype: str) -> st.SearchStrategy[float]:
    info = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, float(info.max), float(info.min), float(info.tiny)]
    return st.sampled_from(special) | st.floats(width=info.bits)  # type: ignore[arg-type]


@st.composite
def float_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    dtype = draw(st.sampled_from(["float16", "float32", "float64"]))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    a = draw(hnp.arrays(dtype, shape, elements=edge_floats(dtype)))
    b = draw(hnp.arrays(dtype, shape, elements=edge_floats(dtype)))
    return a, np.where(draw(hnp.arrays(bool, shape)), a, b).astype(dtype)


@given(float_pairs())
def test_floats_agree_with_numpy(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    one = compare_tensor("y", a, b)
    assert one.equal == same(a, b)
    indices = [i for i in np.ndindex(a.shape) if not same(a[i], b[i])]
    assert one.differing == len(indices)
    assert (one.first.index if one.first else None) == (indices[0] if indices else None)
    ok = [i for i in indices if np.isfinite(a[i]) and np.isfinite(b[i])]
    if len(ok) == len(indices):
        with np.errstate(all="ignore"):
            far = [abs(float(b[i]) - float(a[i])) for i in ok]
        assert one.max_abs == max(far, default=0)
        if one.worst:
            assert one.worst.index == ok[far.index(max(far))]


@given(float_pairs(), st.floats(0, 1e3), st.floats(0, 1.5))
def test_tolerance_agrees_with_numpy(pair: tuple[np.ndarray, np.ndarray], atol: float, rtol: float) -> None:
    a, b = (x.astype(np.float64) for x in pair)
    with np.errstate(all="ignore"):
        # Where numpy's own bound or difference overflows, it compares infinities.
        finite = np.isfinite(a)
        if np.isinf(b - a)[finite & np.isfinite(b)].any() or np.isinf(atol + rtol * np.abs(a))[finite].any():
            return
        close = np.isclose(b, a, atol=atol, rtol=rtol, equal_nan=True)
    assert compare_tensor("y", *pair).within(atol, rtol) == close.all()


@given(st.data(), st.sampled_from(["int8", "int64", "uint64"]))
def test_integers_agree_with_python(data: st.DataObject, dtype: str) -> None:
    info = np.iinfo(dtype)
    values = st.lists(st.integers(int(info.min), int(info.max)) | st.integers(0, 3), min_size=4, max_size=4)
    a, b = data.draw(values), data.draw(values)
    atol = data.draw(st.integers(0, 4).map(float) | st.floats(0, 2.0**65))
    one = compare_tensor("y", np.array(a, dtype), np.array(b, dtype))
    far = [abs(x - y) for x, y in zip(a, b, strict=True)]
    assert one.max_abs == max(far)
    assert one.within(atol) == (max(far) <= atol)


@given(st.lists(st.text(max_size=3), max_size=6), st.lists(st.text(max_size=3), max_size=6))
def test_strings_agree_with_python(a: list[str], b: list[str]) -> None:
    one = compare_tensor("y", np.array(a, object), np.array(b, object))
    assert one.equal == (a == b)


def test_memory_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ulp, "_CHUNK", 1 << 12)
    a = np.ones(1 << 20, np.float32)
    pairs = [(a, a.copy()), (a, a + 1), (a.reshape(1 << 10, -1).T, a.reshape(1 << 10, -1))]
    tracemalloc.start()
    try:
        for expected, found in pairs:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            compare({"y": expected}, {"y": found}).within(0.5)
            assert tracemalloc.get_traced_memory()[1] - before < a.nbytes / 2
    finally:
        tracemalloc.stop()


def test_comparisons_are_values() -> None:
    a, b = np.zeros(2), np.ones(2)
    assert compare({"y": a}, {"y": b}) == compare({"y": a.copy()}, {"y": b.copy()})
    assert isinstance(compare({}, {}), Comparison)
    assert "array" not in repr(tensor(a, b))
