from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.zoo.manifest import NAME, Deciding, ModelRow, opened, read

DECIDING = Deciding("cleanup", {"verify": "off"}, {"onnx-passes": "1"})


def test_what_is_recorded_is_read(tmp_path: Path):
    with opened(tmp_path / "out") as manifest:
        run = manifest.begin(DECIDING, 2, 1)
        row = ModelRow("a.onnx", run, "/zoo/a.onnx", "00", {}, "ok", operators_after={"Add": 1}, output="a.onnx")
        manifest.record(row)
        manifest.record(replace(row, evidence="bits:sampled"))
        assert manifest.runs()[run].finished is None
        manifest.finish(run, 3)
    with read(tmp_path / "out") as manifest:
        assert manifest.rows() == {"a.onnx": replace(row, evidence="bits:sampled")}
        (found,) = manifest.runs().values()
    assert (found.deciding, found.models, found.up_to_date, found.exit_code) == (DECIDING, 2, 1, 3)


def test_one_program_at_a_time_writes_and_others_may_read(tmp_path: Path):
    with opened(tmp_path):
        with pytest.raises(UsageError, match="another run writes to this folder"), opened(tmp_path):
            pass
        with read(tmp_path) as manifest:
            assert manifest.rows() == {}
    with opened(tmp_path):
        pass


def test_manifests_of_other_versions_and_other_files_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="there is no manifest"), read(tmp_path):
        pass
    with opened(tmp_path):
        pass
    connection = sqlite3.connect(tmp_path / NAME)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(UsageError, match="the manifest has version 7"), opened(tmp_path):
        pass
    (tmp_path / NAME).write_bytes(b"no database" * 100)
    with pytest.raises(UsageError, match="the manifest cannot be used"), read(tmp_path):
        pass
