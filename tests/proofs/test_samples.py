"""Which numbers are tried: all that an input can hold, or none that it cannot, and those at which results change."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Tensor
from onnx_passes.proofs.samples import (
    Domain,
    all_inputs,
    interface_difference,
    lone_defaults,
    model_interface_difference,
    some_inputs,
    values_of,
)
from tests.proofs.models import model

BOOL, I4, I8, U8, I16, U16, I32, U32, I64, F16, BF16, F32, F64 = (
    ir.DataType[name]
    for name in (
        "BOOL", "INT4", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "FLOAT16", "BFLOAT16",
        "FLOAT", "DOUBLE",
    )
)  # fmt: skip


def test_types_of_too_many_numbers_and_those_that_share_a_byte_are_not_listed():
    assert values_of(BOOL).tolist() == [False, True]
    for dtype in (I4, I32, U32, I64, F32, F64):
        assert values_of(dtype) is None


def _members(domain: Domain, numbers: list[float]) -> list[float]:
    """Find by trying what a domain holds."""
    step = domain.step or 0
    return [x for x in numbers if domain.low <= x <= domain.high and (not step or (x / step).is_integer())]


@pytest.mark.parametrize(
    "domain",
    [
        Domain(-3, 5),
        Domain(-3, 5, 2),
        Domain(1, 6, 2),
        Domain(-6, -1, 4),
        Domain(2, 2),
        Domain(-4.5, 3.5),
        Domain(-128, 127, 3),
    ],
    ids=str,
)
def test_integers_of_a_domain_are_those_that_it_contains(domain: Domain):
    every = np.arange(-128, 128)
    for dtype in (I8, I32, I64):
        found = values_of(dtype, domain)
        assert found is not None
        assert found.dtype == dtype.numpy()
        assert found.tolist() == _members(domain, [float(x) for x in every])
    assert every[domain.contains(every)].tolist() == _members(domain, [float(x) for x in every])


@pytest.mark.parametrize("domain", [Domain(-1, 1, 0.25), Domain(0.3, 1, 0.25), Domain(0, 3, 0.5)], ids=str)
def test_floats_of_a_grid_are_its_multiples_and_both_zeros(domain: Domain):
    expected = _members(domain, [place / 64 for place in range(-256, 257)])
    for dtype in (F16, F32, F64):
        found = values_of(dtype, domain)
        assert found is not None
        assert sorted(set(found.tolist())) == expected
        assert {np.signbit(x) for x in found if x == 0} == ({True, False} if 0.0 in expected else set())


def test_floats_of_a_domain_without_a_grid_are_listed_only_if_the_type_is_short():
    found = values_of(F16, Domain(-1.0, 0.5))
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    assert found is not None
    assert len(found) == sum(bool(-1.0 <= float(x) <= 0.5) for x in every)
    assert found.min() == -1.0
    assert found.max() == 0.5
    assert values_of(F32, Domain(-1.0, 0.5)) is None


def test_a_domain_of_too_many_or_no_numbers_is_not_listed():
    listed = values_of(I32, Domain(1, 2**16))
    assert listed is not None
    assert len(np.unique(listed)) == 2**16
    assert values_of(I32, Domain(0, 2**16)) is None
    assert values_of(I32, Domain(3, 1)) is None


def test_all_inputs_are_every_combination_once():
    domains = {0: Domain(-1, 1), 1: Domain(2, 8, 3)}
    found = all_inputs({0: I32, 1: I32, 2: BOOL}, domains)
    assert found is not None
    seen = list(zip(*(found[variable].tolist() for variable in (0, 1, 2)), strict=True))
    assert sorted(seen) == sorted(itertools.product([-1, 0, 1], [3, 6], [False, True]))
    assert all_inputs({}, {}) == {}
    assert len((all_inputs({0: I8, 1: U8}, {}) or {0: ()})[0]) == 2**16
    assert all_inputs({0: I8, 1: U8, 2: BOOL}, {}) is None
    assert all_inputs({0: I32, 1: BOOL}, {}) is None
    assert all_inputs({0: BOOL, 1: BOOL}, {}, most=3) is None
    assert len((all_inputs({0: BOOL, 1: BOOL}, {}, most=4) or {0: ()})[0]) == 4


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("others", [0, 1, 4])
def test_special_floats_are_among_those_that_are_tried(dtype: ir.DataType, others: int):
    kind = dtype.numpy()
    constant = np.asarray(1.7).astype(kind)
    found = some_inputs(dict.fromkeys(range(others + 1), dtype), {}, [constant])[0]
    assert found.dtype == kind
    tried = {array.tobytes() for array in found}
    unsigned = f"u{np.dtype(kind).itemsize}"
    beside = [(constant.reshape(1).view(unsigned) + np.asarray(d, unsigned)).view(kind)[0] for d in (0, 1)]
    beside.append((constant.reshape(1).view(unsigned) - np.asarray(1, unsigned)).view(kind)[0])
    tiny = np.array([1, 2], unsigned).view(kind)
    wanted = [0.0, -0.0, np.inf, -np.inf, float(dtype.max), -float(dtype.max), 1.0, -1.0, 0.5]
    for number in (*np.asarray(wanted).astype(kind), *tiny, -tiny[0], *beside):
        # Among five variables each has some hundred draws of a thousand numbers.
        assert others > 1 or number.tobytes() in tried, number
    with np.errstate(invalid="ignore"):
        ordinary = np.abs(found.astype(np.float64))
    assert np.isnan(ordinary).any()
    assert np.isinf(ordinary).any()
    assert (np.isfinite(ordinary) & (ordinary < 64) & (ordinary > 2.0**-8)).sum() >= 64


@pytest.mark.parametrize("dtype", [I8, U8, I32, U32, I64], ids=str)
def test_special_integers_are_among_those_that_are_tried(dtype: ir.DataType):
    low, high = int(dtype.min), int(dtype.max)
    found = set(some_inputs({0: dtype}, {}, [np.asarray(77, dtype.numpy())])[0].tolist())
    wanted = {low, low + 1, high - 1, high, high // 2, 76, 77, 78, *range(-9, 10)}
    assert found >= {number for number in wanted if low <= number <= high}
    assert all(low <= number <= high for number in found)
    assert set(some_inputs({0: BOOL}, {}, [])[0].tolist()) == {False, True}


def test_two_variables_meet_in_all_pairs_of_special_numbers():
    found = some_inputs({0: F32, 1: F32}, {}, [])
    pairs = {(a.tobytes(), b.tobytes()) for a, b in zip(found[0], found[1], strict=True)}
    special = [np.float32(x) for x in (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)]
    for a, b in itertools.product(special, special):
        assert (a.tobytes(), b.tobytes()) in pairs


def test_special_numbers_come_alone_among_many_ordinary_ones():
    found = some_inputs(dict.fromkeys(range(12), F32), {}, [])
    odd = np.array([~np.isfinite(found[place]) for place in range(12)])
    assert ((odd.sum(axis=0) == 1) & odd[0]).any()
    assert (odd.sum(axis=0) == 0).any()


@pytest.mark.parametrize("domain", [Domain(-0.3, 2.7), Domain(-2, 3, 0.5), Domain(5e5, 6e5)], ids=str)
@pytest.mark.parametrize("variables", [1, 2, 5])
def test_what_an_input_cannot_hold_is_not_tried(domain: Domain, variables: int):
    found = some_inputs(dict.fromkeys(range(variables), F64), {0: domain}, [])
    numbers = found[0].tolist()
    assert len(set(numbers)) > 8
    assert _members(domain, numbers) == numbers
    assert variables > 2 or {domain.low, domain.high} <= set(numbers)
    assert variables == 1 or np.isinf(found[1]).any()


def _tensor(dtype: ir.DataType, *shape: int) -> Tensor:
    return Tensor(dtype, np.zeros(shape), None)


def test_interfaces_differ_in_number_type_or_shape():
    given = model("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }")
    same = [_tensor(F32, 2), _tensor(F32, 2)]
    assert interface_difference(given, same, same) == ""
    assert interface_difference(given, same, same[:1]) == "2 outputs become 1"
    assert "'z' becomes DOUBLE" in interface_difference(given, same, [same[0], _tensor(F64, 2)])
    for shape in ((3,), (1, 2), ()):
        assert "'z' becomes" in interface_difference(given, same, [same[0], _tensor(F32, *shape)])


def _interface(inputs: str, outputs: str) -> ir.Model:
    return model(f"g ({inputs}) => ({outputs}) {{ y = Neg(x) }}")


@pytest.mark.parametrize(
    ("inputs", "outputs", "differs"),
    [
        ("float[2] x", "float[2] y", False),
        ("float[2] x", "float[N] y", False),
        ("float[2] x", "float[3] y", True),
        ("float[2] x", "float[2,1] y", True),
        ("float[2] x", "double[2] y", True),
        ("float[N] x", "float[2] y", True),
        ("float[3] x", "float[2] y", True),
        ("double[2] x", "float[2] y", True),
        ("float[2] x, float[2] u", "float[2] y", True),
    ],
)
def test_dimensions_of_outputs_may_be_left_open_and_those_of_inputs_not(inputs: str, outputs: str, differs: bool):
    given, other = _interface("float[2] x", "float[2] y"), _interface(inputs, outputs)
    assert bool(model_interface_difference(given, other)) is differs
    assert bool(model_interface_difference(other, given)) is differs


def test_a_default_that_only_one_model_has_is_named():
    both = "g (float[2] x, float[2] c) => (float[2] y) <float[2] c = {1, 2}> { y = Add(x, c) }"
    one = "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Add(x, c) }"
    assert lone_defaults(model(both), model(one)) == lone_defaults(model(one), model(both)) == ["c"]
    assert lone_defaults(model(both), model(both)) == lone_defaults(model(one), model(one)) == []


@pytest.mark.parametrize("variables", [1, 2, 3])
def test_ordinary_numbers_meet_ordinary_numbers(variables: int):
    """What differs for most inputs, but for no special ones, is found."""
    found = some_inputs(dict.fromkeys(range(variables), F32), {}, [])
    with np.errstate(invalid="ignore"):
        sizes = np.abs(np.array([found[place].astype(np.float64) for place in range(variables)]))
    ordinary = (sizes > 2.0**-6) & (sizes < 8) & (sizes * 64 != np.round(sizes * 64))
    assert ordinary.all(axis=0).sum() >= 64
