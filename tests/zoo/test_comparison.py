from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onnx_passes.zoo.comparison import DifferenceThresholds, compare_folders
from onnx_passes.zoo.manifest import Deciding, ModelRow, opened, read
from onnx_passes.zoo.page import write_page

ROW = ModelRow(
    *("m.onnx", 1, "/zoo/m.onnx", "00", {}, "ok"),
    evidence="bits:sampled",
    nodes_before=12,
    nodes_after=10,
    bytes_after=1000,
    cpu_seconds=1.0,
)
FAILED = replace(ROW, status="failed", kind="pass", exit_code=3, message="a <b> raised", nodes_after=None)


def compared(tmp_path: Path, old: ModelRow, new: ModelRow, **thresholds: float):
    for name, row in (("old", old), ("new", new)):
        with opened(tmp_path / name) as manifest:
            manifest.begin(Deciding("cleanup", {}, {}), 1, 0)
            manifest.record(row)
    return compare_folders(tmp_path / "old", tmp_path / "new", DifferenceThresholds(**thresholds))


@pytest.mark.parametrize(
    ("worse", "what"),
    [
        (replace(ROW, nodes_after=11), "nodes"),
        (replace(ROW, evidence="tolerance:sampled"), "evidence"),
        (replace(ROW, evidence=""), "evidence"),
        (replace(ROW, bytes_after=1011), "size"),
        (replace(ROW, cpu_seconds=1.6), "time"),
        (FAILED, "status"),
        (replace(ROW, status="lost"), "status"),
    ],
)
def test_worse_and_the_other_way_round_better(tmp_path: Path, worse: ModelRow, what: str):
    found = compared(tmp_path, ROW, worse)
    assert [(one.what, one.is_worse) for one in found.differences] == [(what, True)]
    back = compare_folders(tmp_path / "new", tmp_path / "old", DifferenceThresholds())
    assert [(one.what, one.is_worse) for one in back.differences] == [(what, False)]


@pytest.mark.parametrize(
    "same",
    [
        replace(ROW, bytes_after=1009),
        replace(ROW, cpu_seconds=1.45),
        replace(ROW, source_digest="01", nodes_after=20, cpu_seconds=9.0),
    ],
)
def test_noise_and_other_models_are_no_difference(tmp_path: Path, same: ModelRow):
    assert compared(tmp_path, ROW, same).differences == ()


def test_thresholds_are_the_users(tmp_path: Path):
    slower = replace(ROW, cpu_seconds=1.3)
    assert [one.what for one in compared(tmp_path, ROW, slower, time=1.2, seconds=0.1).worse] == ["time"]


def test_a_new_model_that_fails_is_noticed(tmp_path: Path):
    found = compared(tmp_path, ROW, replace(FAILED, model="other.onnx"))
    assert [(one.model, one.what) for one in found.worse] == [("other.onnx", "status")]
    assert (found.only_old, found.only_new) == (("m.onnx",), ("other.onnx",))


def test_the_page_shows_texts_as_texts_and_asks_nobody(tmp_path: Path):
    found = compared(tmp_path, ROW, FAILED)
    with read(tmp_path / "new") as manifest:
        page = write_page(tmp_path / "new", manifest.rows(), manifest.runs(), found).read_text()
    assert "a &lt;b&gt; raised" in page
    assert "<b>" not in page
    assert "Against ../old" in page
    assert "http" not in page.replace("http-equiv", "")
