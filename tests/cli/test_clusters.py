"""The command line measures on processes and clusters, and says what is wrong with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onnx_passes import examples

CNN = examples.path("digits-cnn")


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    digits = examples.digits()
    np.savez(tmp_path / "digits.npz", image=digits.image, label=digits.label)
    return ["--dataset", f"{tmp_path}/*.npz#image", "--expect", f"{tmp_path}/digits.npz#label"]


def test_two_processes_measure_what_one_does(run, data, tmp_path):
    metrics = ["--metric", "accuracy>=0.9", "--metric", "mean_abs_error"]
    records = []
    for jobs in (1, 2):
        record = tmp_path / f"{jobs}.json"
        answer = run(CNN, "-o", tmp_path / "o.onnx", "-j", jobs, *data, *metrics, "--record", record, "streamline")
        assert answer.code == 0, answer.err
        assert "measured on 360 samples (onnxruntime) against what is expected" in answer.err
        found = json.loads(record.read_text())
        records.append([found["metrics"], *(step.get("metrics") for step in found["steps"])])
    assert records[0] == records[1]


def test_a_range_that_does_not_hold_fails_the_run(run, data, tmp_path):
    answer = run(CNN, "-o", tmp_path / "o.onnx", "-j", 2, *data, "--metric", "accuracy>=0.9999", "cleanup")
    assert answer.code == 1
    assert "accepted is at least 0.9999" in answer.err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["-j", 2, "--scheduler", "tcp://127.0.0.1:9"], "--jobs and --scheduler exclude each other"),
        (["--store", "somewhere"], "--store needs workers"),
        (["-j", 2, "--dataset", "nowhere/*.npy"], "no file is of this pattern"),
    ],
)
def test_what_cannot_be_is_said(run, tmp_path, given, why):
    answer = run(CNN, "-o", tmp_path / "o.onnx", "--metric", "psnr", *given, "cleanup")
    assert answer.code == 2
    assert why in answer.err
    assert not (tmp_path / "o.onnx").exists()


def test_nothing_of_clusters_is_imported_unasked():
    code = (
        "import sys; from onnx_passes.cli.main import main\n"
        f"import onnx_passes; onnx_passes.apply({str(CNN)!r}, 'cleanup')\n"
        "print([name for name in ('dask', 'distributed', 'fsspec', 'zarr', 'pyarrow') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
