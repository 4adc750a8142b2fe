from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.core.errors import ConfigError, UsageError
from onnx_passes.verify.metrics.metrics import (
    METRICS,
    Metric,
    accepted,
    accumulator,
    accuracy,
    cosine_similarity,
    count_mispredictions,
    find_metric,
    is_elementwise,
    max_abs_error,
    mean_abs_error,
    metric_name,
    parse_condition,
    parse_ranges,
    psnr,
    range_text,
    top_5_accuracy,
)

SCORES = np.array([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
LABELS = np.array([1, 0, 1, 0])


# Classes


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int4"])
def test_labels_against_scores(dtype: str) -> None:
    assert accuracy(LABELS.astype(dtype), SCORES) == 0.75
    assert count_mispredictions(LABELS.astype(dtype), SCORES) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_one_hot_against_scores(dtype: str) -> None:
    assert accuracy(np.eye(3)[LABELS].astype(dtype), SCORES) == 0.75


def test_class_numbers_as_a_column_are_not_taken_for_scores() -> None:
    assert accuracy(LABELS[:, None], SCORES) == 0.75
    assert accuracy(LABELS, SCORES.argmax(-1)[:, None]) == 0.75
    assert accuracy(LABELS[:, None], SCORES.argmax(-1)[:, None]) == 0.75


def test_classes_against_classes_and_scores_against_classes() -> None:
    assert accuracy(LABELS, SCORES.argmax(-1)) == 0.75
    assert accuracy(SCORES, LABELS) == 0.75
    assert accuracy(np.array(1), SCORES[0]) == 1
    assert accuracy(np.array(1), np.array([3, 2, 1])) == 0


def test_classes_of_many_places_a_sample() -> None:
    labels = LABELS.reshape(2, 2)
    assert accuracy(labels, SCORES.reshape(2, 2, 3)) == 0.75


def test_of_equal_scores_the_first_wins() -> None:
    scores = np.array([[1, 3, 3], [2, 2, 2]])
    assert accuracy(np.array([1, 0]), scores) == 1
    assert accuracy(np.array([2, 1]), scores) == 0
    assert top_5_accuracy(np.array([4, 5]), np.zeros((2, 7))) == 0.5


def test_a_sample_with_nan_is_never_right() -> None:
    scores = np.array([[np.nan, 1.0], [np.nan, np.nan]])
    assert accuracy(np.array([0, 0]), scores) == accuracy(np.array([1, 1]), scores) == 0
    assert accuracy(scores, scores) == top_5_accuracy(scores, scores) == 0


def test_labels_out_of_range_are_wrong() -> None:
    assert accuracy(np.array([-1, 3, 5, 0]), SCORES) == 0.25
    assert top_5_accuracy(np.array([-1, 3, 5, 0]), SCORES) == 0.25


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (LABELS, SCORES[:3]),
        (LABELS, np.zeros((2, 2, 3))),
        (LABELS, np.zeros(4)),
        (LABELS.astype(float), SCORES),
        (np.eye(4), SCORES),
        (LABELS, SCORES[:, :1]),
        (LABELS, SCORES[:, :0]),
        (np.array(1.0), np.array(1.0)),
        (np.array(["a"], object), np.array(["a"], object)),
    ],
)
def test_what_does_not_fit_is_refused(expected: np.ndarray, found: np.ndarray) -> None:
    for metric in (accuracy, top_5_accuracy, count_mispredictions):
        with pytest.raises(UsageError):
            metric(expected, found)


def test_the_best_five_need_scores() -> None:
    with pytest.raises(UsageError, match="best 5"):
        top_5_accuracy(LABELS, LABELS)


@given(st.data())
def test_accuracy_agrees_with_sorting(data: st.DataObject) -> None:
    count, classes = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 9))
    seed = data.draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(0, 4, (count, classes)).astype(np.float32), rng.integers(0, classes, count)
    ranking = [sorted(range(classes), key=lambda c, row=row: -row[c]) for row in scores]
    for metric, best in ((accuracy, 1), (top_5_accuracy, 5)):
        right = [int(label) in order[:best] for label, order in zip(labels, ranking, strict=True)]
        assert metric(labels, scores) == pytest.approx(np.mean(right))


# Errors


def test_errors_of_numbers() -> None:
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.5], [3.0, 2.0]])
    assert max_abs_error(a, b) == 2
    assert mean_abs_error(a, b) == 0.625
    assert cosine_similarity(a, b) == pytest.approx(np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b))
    assert psnr(a, b) == pytest.approx(10 * math.log10(16 / np.mean((a - b) ** 2)))


def test_values_that_agree_have_no_error() -> None:
    a = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert max_abs_error(a, a) == mean_abs_error(a, a) == 0
    assert psnr(a, a) == math.inf


@pytest.mark.parametrize("other", [0.0, -np.inf, np.nan])
def test_nothing_is_as_far_as_nan_and_infinity(other: float) -> None:
    a, b = np.array([np.inf, 1.0]), np.array([other, 1.0])
    assert max_abs_error(a, b) == max_abs_error(b, a) == mean_abs_error(a, b) == math.inf
    assert psnr(a, b) == -math.inf
    assert math.isnan(cosine_similarity(a, b))


def test_zero_vectors() -> None:
    zero, one = np.zeros(3), np.ones(3)
    assert cosine_similarity(zero, zero) == 1
    assert cosine_similarity(zero, one) == cosine_similarity(one, zero) == 0
    assert cosine_similarity(one, -one) == pytest.approx(-1)
    assert psnr(zero, one) == -math.inf
    assert psnr(zero, zero) == math.inf


@pytest.mark.parametrize("metric", [max_abs_error, mean_abs_error, cosine_similarity, psnr])
def test_errors_never_broadcast(metric: Metric) -> None:
    with pytest.raises(UsageError, match="do not fit together"):
        metric(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(UsageError, match="real numbers"):
        metric(np.zeros(3, complex), np.zeros(3, complex))


def test_nothing_has_no_mean() -> None:
    none, labels, scores = np.zeros((0, 3)), np.zeros(0, int), np.zeros((0, 3))
    assert max_abs_error(none, none) == 0
    assert count_mispredictions(labels, scores) == 0
    for metric in (mean_abs_error, psnr):
        assert math.isnan(metric(none, none))
    for metric in (accuracy, top_5_accuracy):
        assert math.isnan(metric(labels, scores))


def test_differences_of_narrow_and_unsigned_types_do_not_wrap() -> None:
    assert max_abs_error(np.array([250], np.uint8), np.array([255], np.uint8)) == 5
    assert max_abs_error(np.array([255], np.uint8), np.array([0], np.uint8)) == 255
    assert max_abs_error(np.array([-8], "int4"), np.array([7], "int4")) == 15
    assert max_abs_error(np.array([60000], np.float16), np.array([-60000], np.float16)) == pytest.approx(120000, 1e-2)


# Batches


def batches(cuts: Sequence[int], *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    yield from zip(*(np.split(array, cuts) for array in arrays), strict=True)


@pytest.mark.parametrize("name", METRICS)
@given(st.integers(0, 1000), st.lists(st.integers(0, 12), max_size=5).map(sorted))
def test_batches_give_the_value_of_the_whole(name: str, seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((12, 7)).astype(np.float32)
    expected = found + rng.standard_normal((12, 7)).astype(np.float32)
    state = accumulator(METRICS[name])
    for a, b in batches(cuts, expected, found):
        state.update(a, b)
    assert state.value() == pytest.approx(METRICS[name](expected, found), rel=1e-9)


def mean_of_found(expected: np.ndarray, found: np.ndarray) -> float:
    return float(found.mean())


@given(st.lists(st.integers(0, 8), max_size=5).map(sorted))
def test_batches_of_a_users_metric_are_weighted_by_samples(cuts: list[int]) -> None:
    labels, found = np.arange(8), np.arange(16.0).reshape(8, 2) ** 2
    state = accumulator(mean_of_found)
    for a, b in batches(cuts, labels, found):
        state.update(a, b)
    assert state.value() == pytest.approx(found.mean())


def test_a_fresh_accumulator_has_nothing_to_say() -> None:
    assert math.isnan(accumulator(accuracy).value())
    assert math.isnan(accumulator(mean_of_found).value())


def test_errors_in_a_users_metric_name_it() -> None:
    def broken(expected: np.ndarray, found: np.ndarray) -> float:
        raise KeyError("label")

    with pytest.raises(UsageError, match="'broken' raised KeyError"):
        accumulator(broken).update(np.zeros(1), np.zeros(1))


# Metrics of users are called by the names of their parameters


def found_before_expected(found: np.ndarray, expected: np.ndarray) -> float:
    return float(found.sum() - 2 * expected.sum())


def outputs_before_expected(outputs: np.ndarray, expected: np.ndarray) -> float:
    return found_before_expected(outputs, expected)


def as_scikit_learn_has_it(y_true: np.ndarray, y_pred: np.ndarray, *, weight: float = 1) -> float:
    return weight * found_before_expected(y_pred, y_true)


def by_keyword(*, labels: np.ndarray, logits: np.ndarray) -> float:
    return found_before_expected(logits, labels)


@pytest.mark.parametrize(
    "metric",
    [found_before_expected, outputs_before_expected, as_scikit_learn_has_it, by_keyword],
    ids=lambda m: m.__name__,
)
def test_arrays_go_to_the_parameters_of_their_names(metric: Metric) -> None:
    state = accumulator(metric)
    state.update(np.array([1.0]), np.array([10.0]))
    assert state.value() == 8


@pytest.mark.parametrize(
    "metric",
    [
        lambda a, b: 0.0,
        lambda actual, expected: 0.0,
        lambda outputs, found: 0.0,
        lambda expected, found, labels: 0.0,
        lambda expected, found, weight: 0.0,
        lambda found: 0.0,
        lambda *arrays: 0.0,
        lambda **arrays: 0.0,
        np.maximum,
        max,
    ],
)
def test_names_that_do_not_tell_which_array_is_which_are_refused(metric: Metric) -> None:
    with pytest.raises(UsageError, match=r"'expected' \(or labels"):
        accumulator(metric).update(np.zeros(1), np.zeros(1))


# Names and ranges


@pytest.mark.parametrize("spelling", ["top_5_accuracy", "top-5-accuracy", "top5_accuracy", "Top5Accuracy"])
def test_metrics_are_found_in_any_spelling(spelling: str) -> None:
    assert find_metric(spelling) is top_5_accuracy


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UsageError, match="no metric 'acuracy'; did you mean 'accuracy'"):
        find_metric("acuracy")
    with pytest.raises(UsageError, match="there are max_abs_error"):
        find_metric("zzz")


def test_functions_are_imported_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        CONSTANT = 1
        def recall(expected, found):
            return 0.5
    """
    (tmp_path / "metrics_of_a_user.py").write_text(dedent(text))
    monkeypatch.delitem(sys.modules, "metrics_of_a_user", raising=False)
    assert find_metric("metrics_of_a_user:recall", base=tmp_path)(LABELS, SCORES) == 0.5
    with pytest.raises(UsageError, match=r"no function 'recal' in the module.*did you mean 'recall'"):
        find_metric("metrics_of_a_user:recal", base=tmp_path)
    with pytest.raises(UsageError, match="not a function"):
        find_metric("metrics_of_a_user:CONSTANT", base=tmp_path)
    del sys.modules["metrics_of_a_user"]


@pytest.mark.parametrize(
    "path", ["no_such_module:f", "os:", ":f", "os:system('true')", "a b:f", "os:path.join", "m.py:f"]
)
def test_paths_that_name_no_function_are_refused(path: str) -> None:
    with pytest.raises(UsageError):
        find_metric(path)


@pytest.mark.parametrize(
    ("value", "limits", "expected"),
    [
        (0.5, (0.5, 1.0), True),
        (1.0, (0.5, 1.0), True),
        (0.49, (0.5, None), False),
        (7.0, (0.5, None), True),
        (7.0, (None, 6.0), False),
        (-7.0, (None, None), True),
        (math.nan, (None, None), False),
        (math.inf, (40.0, None), True),
    ],
)
def test_ends_of_a_range_belong_to_it(value: float, limits: tuple[float | None, float | None], expected: bool) -> None:
    assert accepted(value, limits) is expected


def test_ranges_are_read() -> None:
    ranges = parse_ranges({"accuracy": [0.9, 1], "psnr": (40, None), "max-abs-error": [None, 1e-3], "my:f": [1, 1]})
    assert ranges == {"accuracy": (0.9, 1.0), "psnr": (40.0, None), "max-abs-error": (None, 1e-3), "my:f": (1.0, 1.0)}


@pytest.mark.parametrize("limits", [0.9, None, "ab", [], [1], [0, 1, 2], ["0", 1], [True, 1], [1, 0], [math.nan, 1]])
def test_wrong_ranges_say_where_and_what_to_write(limits: object) -> None:
    with pytest.raises(ConfigError, match=r"verify\.metrics\.accuracy: .*; write \[min, max\]"):
        parse_ranges({"accuracy": limits})


def test_ranges_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"verify\.metrics"):
        parse_ranges([0.9, 1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "limits"),
    [
        ("accuracy", "accuracy", None),
        ("accuracy=0.9,1", "accuracy", (0.9, 1.0)),
        ("accuracy = 0.9 ,", "accuracy", (0.9, None)),
        ("psnr=,40", "psnr", (None, 40.0)),
        ("psnr=,", "psnr", (None, None)),
        ("accuracy>=0.9", "accuracy", (0.9, None)),
        ("max-abs-error <= 1e-3", "max-abs-error", (None, 1e-3)),
        ("my.module:f>=-1", "my.module:f", (-1.0, None)),
        ("psnr=inf,inf", "psnr", (math.inf, math.inf)),
    ],
)
def test_conditions_of_the_command_line(text: str, name: str, limits: tuple[float | None, float | None] | None) -> None:
    assert parse_condition(text) == (name, limits)


@pytest.mark.parametrize("text", ["", "=1,2", "a=", "a=1", "a=1,2,3", "a=x,1", "a<=", "a>=1,2", "a<1", "a==1", "a=2,1"])
def test_conditions_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ((0.95, None), "at least 0.95"),
        ((None, 1e-3), "at most 0.001"),
        ((0.5, 1.0), "0.5 to 1"),
        ((1.0, 1.0), "exactly 1"),
        ((None, None), "anything"),
    ],
)
def test_ranges_are_told_in_words(limits: tuple[float | None, float | None], text: str) -> None:
    assert range_text(limits) == text


def test_metrics_have_one_name_each() -> None:
    assert metric_name("Top-5-Accuracy") == metric_name(top_5_accuracy) == "top_5_accuracy"
    assert metric_name("my:Function") == "my:Function"
    assert {name for name, metric in METRICS.items() if is_elementwise(metric)} == {
        "max_abs_error",
        "mean_abs_error",
        "cosine_similarity",
        "psnr",
    }
