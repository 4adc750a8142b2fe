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


FIRST_VERSION = """
CREATE TABLE runs (
    run INTEGER PRIMARY KEY, started TEXT NOT NULL, finished TEXT, pipeline TEXT NOT NULL, options TEXT NOT NULL,
    versions TEXT NOT NULL, models INTEGER NOT NULL, up_to_date INTEGER NOT NULL, exit_code INTEGER
);
CREATE TABLE models (
    model TEXT PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs, source TEXT NOT NULL, source_digest TEXT NOT NULL,
    source_files TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('ok', 'failed', 'lost')), kind TEXT NOT NULL,
    exit_code INTEGER NOT NULL, message TEXT NOT NULL, evidence TEXT NOT NULL,
    nodes_before INTEGER, nodes_after INTEGER, operators_before TEXT, operators_after TEXT,
    parameters_before INTEGER, parameters_after INTEGER, bytes_before INTEGER, bytes_after INTEGER,
    cpu_seconds REAL NOT NULL, wall_seconds REAL NOT NULL, output TEXT, output_digest TEXT, output_files TEXT,
    finished TEXT NOT NULL
);
CREATE VIEW results AS
    SELECT models.*, runs.pipeline, runs.options, runs.versions FROM models JOIN runs USING (run);
INSERT INTO runs VALUES (1, 'then', 'later', 'cleanup', '{"verify": "off"}', '{"onnx-passes": "1"}', 2, 0, 0);
INSERT INTO models VALUES ('a.onnx', 1, '/zoo/a.onnx', '00', '{}', 'ok', '', 0, '', 'sampled', 4, 2, '{"Add": 4}', '{}',
    1, 1, 9, 8, 0.5, 0.5, 'a.onnx', '01', '{}', 'then');
INSERT INTO models VALUES ('b.onnx', 1, '/zoo/b.onnx', '00', '{}', 'ok', '', 0, '', 'unverified', 4, 2, '{}', '{}',
    1, 1, 9, 8, 0.5, 0.5, 'b.onnx', '01', '{}', 'then');
PRAGMA user_version = 1;
"""


def test_manifests_of_the_first_version_are_read_and_written_on(tmp_path: Path):
    connection = sqlite3.connect(tmp_path / NAME)
    connection.executescript(FIRST_VERSION)
    connection.close()
    with read(tmp_path) as manifest:
        before, runs = manifest.rows(), manifest.runs()
    assert (before["a.onnx"].status, before["a.onnx"].operators_before) == ("ok", {"Add": 4})
    assert before["b.onnx"].status == "unverified", "what was not verified was told as ok then"
    with opened(tmp_path) as manifest:
        assert manifest.rows() == before
        assert manifest.runs() == runs
        manifest.record(replace(before["a.onnx"], status="unverified", host="here", computed_with={"numpy": "2"}))
        assert manifest.begin(DECIDING, 1, 0) == 2
    with read(tmp_path) as manifest:
        assert (manifest.rows()["a.onnx"].host, manifest.rows()["a.onnx"].computed_with) == ("here", {"numpy": "2"})
    connection = sqlite3.connect(tmp_path / NAME)
    found = connection.execute("SELECT model, pipeline FROM results ORDER BY model").fetchall()
    connection.close()
    assert found == [("a.onnx", "cleanup"), ("b.onnx", "cleanup")]
