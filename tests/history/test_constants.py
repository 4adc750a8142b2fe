from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.history.constants import Constants, summarize


def of(array: np.ndarray) -> dict:
    return summarize(ir.tensor(array)).to_json()


def test_small_tensor_is_listed():
    assert of(np.array([[1.5, 0.0], [-2.0, 0.0]], np.float32)) == {
        "bytes": 16,
        "values": [1.5, 0.0, -2.0, 0.0],
        "min": -2.0,
        "max": 1.5,
        "distinct": 3,
        "zeros": 2,
    }


def test_numbers_that_json_does_not_know_are_text():
    data = of(np.array([np.nan, np.inf, 1.0], np.float32))
    assert data["values"] == ["nan", "inf", 1.0]
    assert (data["min"], data["max"]) == (1.0, "inf")


def test_statistics_are_those_of_numpy():
    array = np.random.default_rng(0).normal(size=(30, 40)).astype(np.float32)
    array[3:5] = 0
    data = of(array)
    assert (data["min"], data["max"]) == (float(array.min()), float(array.max()))
    assert data["zeros"] == 80
    assert data["distinct"] == len(np.unique(array))
    counts = np.histogram(array, bins=len(data["histogram"]["counts"]))[0]
    assert data["histogram"]["counts"] == counts.tolist()
    assert "sample" not in data


def test_large_tensor_is_sampled_and_says_so():
    array = np.arange(100_000, dtype=np.float32)
    data = of(array)
    assert data["bytes"] == 400_000
    assert 3000 < data["sample"] <= 4096
    assert sum(data["histogram"]["counts"]) == data["sample"]
    assert data["max"] == pytest.approx(99_999, rel=1e-3)


def test_sample_meets_every_channel():
    array = np.tile(np.arange(64, dtype=np.int64), 4096)
    assert of(array)["distinct"] == 64


def test_nan_is_left_out_of_the_bounds():
    data = of(np.concatenate([np.full(10, np.nan, np.float32), np.linspace(0, 1, 11, dtype=np.float32)]))
    assert (data["min"], data["max"], data["distinct"]) == (0.0, 1.0, 11)
    assert of(np.full(20, np.nan, np.float32))["min"] == "nan"


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_element_types(dtype):
    data = of(np.array([0, 1] * 20).astype(dtype))
    assert (data["min"], data["max"], data["distinct"], data["zeros"]) == (0, 1, 2, 20)


def test_texts_complex_numbers_and_nothing():
    assert summarize(ir.StringTensor([b"a", b"\xff"], shape=ir.Shape([2]))).to_json()["values"] == ["a", "\ufffd"]
    assert "min" not in of(np.ones(20, np.complex64))
    assert of(np.zeros((0, 3), np.float32)) == {"bytes": 0}


def test_file_that_is_missing_is_no_error(tmp_path):
    tensor = ir.ExternalTensor(
        "gone.bin", 0, 400, ir.DataType.FLOAT, shape=ir.Shape([100]), name="w", base_dir=tmp_path
    )
    assert summarize(tensor).to_json() == {"bytes": 400}


def test_every_tensor_is_described_once_and_none_is_kept():
    constants, tensor = Constants(), ir.tensor(np.arange(30.0))
    assert constants.of(tensor) is constants.of(tensor)
    assert len(constants._known) == 1
    del tensor
    gc.collect()
    assert not constants._known
