"""The manifest of a zoo: an SQLite database with one row for each run and one for each model.

Every row is committed after its file is on the disk, so that the manifest is correct however the program ends. Only
one program at a time writes to it; any number may read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from onnx_passes.core.errors import UsageError
from onnx_passes.zoo.contents import Contents

NAME = "manifest.sqlite"
SCHEMA = 2
"""Version of the tables, stored as the ``user_version`` of the database."""
_LOCK = ".manifest.lock"

_TABLES = """
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    started TEXT NOT NULL,         -- UTC, ISO 8601, as all times
    finished TEXT,                 -- missing if the run goes on, or was killed
    pipeline TEXT NOT NULL,
    options TEXT NOT NULL,         -- JSON: options that decide about results, beside the pipeline
    versions TEXT NOT NULL,        -- JSON: versions of packages that do
    models INTEGER NOT NULL,       -- how many were asked for
    up_to_date INTEGER NOT NULL,   -- how many of them did not have to run
    exit_code INTEGER
);
CREATE TABLE models (
    model TEXT PRIMARY KEY,        -- its place in the folder of results
    run INTEGER NOT NULL REFERENCES runs,
    source TEXT NOT NULL,          -- path of the model that was read
    source_digest TEXT NOT NULL,   -- BLAKE2b of 16 bytes over its content, data files included
    source_files TEXT NOT NULL,    -- JSON: each file with digest, size, times and inode
    status TEXT NOT NULL CHECK (status IN ('ok', 'unverified', 'failed', 'lost')),
    kind TEXT NOT NULL,            -- of failure: verification, usage, pass, internal, lost
    exit_code INTEGER NOT NULL,
    message TEXT NOT NULL,         -- what failed, or why it could not be verified
    evidence TEXT NOT NULL,        -- weakest level over all steps: sampled, tolerance, …
    nodes_before INTEGER, nodes_after INTEGER,
    operators_before TEXT, operators_after TEXT,  -- JSON: how many nodes of each
    parameters_before INTEGER, parameters_after INTEGER,
    bytes_before INTEGER, bytes_after INTEGER,    -- of files, data files included
    cpu_seconds REAL NOT NULL, wall_seconds REAL NOT NULL,  -- load, run, verify, save and digests
    output TEXT,                   -- path in the folder of results
    output_digest TEXT,
    output_files TEXT,
    finished TEXT NOT NULL,
    host TEXT NOT NULL,            -- the machine that computed it
    computed_with TEXT NOT NULL    -- JSON: versions that it found there, and a digest of our sources
);
CREATE VIEW results AS
    SELECT models.*, runs.pipeline, runs.options, runs.versions FROM models JOIN runs USING (run);
"""


@dataclass(frozen=True)
class Deciding:
    """All settings that determine results, besides the models."""

    pipeline: str
    options: dict[str, Any]
    versions: dict[str, str]


@dataclass(frozen=True)
class Run:
    """One run over a zoo."""

    run: int
    started: str
    finished: str | None
    pipeline: str
    options: dict[str, Any]
    versions: dict[str, str]
    models: int
    up_to_date: int
    exit_code: int | None

    @property
    def deciding(self) -> Deciding:
        """Return the settings that determined its results."""
        return Deciding(self.pipeline, self.options, self.versions)


@dataclass(frozen=True)
class ModelRow:
    """The result of one model; the fields are the columns of the table, in their order."""

    model: str
    run: int
    source: str
    source_digest: str
    source_files: Contents
    status: Literal["ok", "unverified", "failed", "lost"]
    kind: str = ""
    exit_code: int = 0
    message: str = ""
    evidence: str = ""
    nodes_before: int | None = None
    nodes_after: int | None = None
    operators_before: dict[str, int] = field(default_factory=dict[str, int])
    operators_after: dict[str, int] = field(default_factory=dict[str, int])
    parameters_before: int | None = None
    parameters_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    output: str | None = None
    output_digest: str | None = None
    output_files: Contents = field(default_factory=Contents)
    finished: str = ""
    host: str = ""
    computed_with: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_written(self) -> bool:
        """Return whether there is a result, verified or not."""
        return self.status in ("ok", "unverified")

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without fields that only serve to notice changes."""
        return {key: value for key, value in vars(self).items() if not key.endswith("_files")}


class Manifest:
    """The manifest of a folder of results; ``opened`` and ``read`` open it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self, deciding: Deciding, models: int, up_to_date: int) -> int:
        """Record the start of a run; return its number."""
        texts = (json.dumps(deciding.options, sort_keys=True), json.dumps(deciding.versions))
        cursor = self._connection.execute(
            "INSERT INTO runs (started, pipeline, options, versions, models, up_to_date) VALUES (?, ?, ?, ?, ?, ?)",
            (now(), deciding.pipeline, *texts, models, up_to_date),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def record(self, row: ModelRow) -> None:
        """Record the result of a model, replacing the previous one."""
        values = tuple(json.dumps(value) if isinstance(value, dict) else value for value in vars(row).values())
        self._connection.execute(_INSERT, values)

    def finish(self, run: int, exit_code: int) -> None:
        """Record the end of a run."""
        self._connection.execute(
            "UPDATE runs SET finished = ?, exit_code = ? WHERE run = ?", (now(), int(exit_code), run)
        )

    def forget(self, models: Iterable[str]) -> None:
        """Remove the rows of models that no longer exist."""
        self._connection.executemany("DELETE FROM models WHERE model = ?", [(model,) for model in models])

    def rows(self) -> dict[str, ModelRow]:
        """Return the results of all models, by name."""
        found = self._connection.execute("SELECT * FROM models ORDER BY model")
        rows = (ModelRow(**_parsed(_of_today(dict(row)), _PARSED)) for row in found)
        return {row.model: row for row in rows}

    def runs(self) -> dict[int, Run]:
        """Return all runs by their numbers."""
        found = self._connection.execute("SELECT * FROM runs ORDER BY run")
        runs = (Run(**_parsed(dict(row), ("options", "versions"))) for row in found)
        return {run.run: run for run in runs}


_PLACES = ", ".join("?" * len(dataclasses.fields(ModelRow)))
_INSERT = f"INSERT OR REPLACE INTO models VALUES ({_PLACES})"  # noqa: S608 - places alone
_PARSED = ("source_files", "operators_before", "operators_after", "output_files", "computed_with")
_FROM_1 = f"""
    BEGIN;
    DROP VIEW results;
    ALTER TABLE models RENAME TO models_1;
    ALTER TABLE runs RENAME TO runs_1;
    {_TABLES}
    INSERT INTO runs SELECT * FROM runs_1;
    INSERT INTO models SELECT *, '', '{{}}' FROM models_1;
    DROP TABLE models_1;
    DROP TABLE runs_1;
    UPDATE models SET status = 'unverified' WHERE status = 'ok' AND evidence = 'unverified';
    PRAGMA user_version = {SCHEMA};
    COMMIT;
"""  # noqa: S608 - our own tables
"""Upgrades tables of version 1, which did not record the origin of results."""


@contextlib.contextmanager
def opened(folder: Path) -> Generator[Manifest]:
    """Open or create the manifest of a folder for writing, with an exclusive lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be a folder: {error.strerror}", where=str(folder), hint="choose another") from error
    with _locked(folder), _connected(folder / NAME) as connection:
        version = _version(connection, folder)
        if version == 0:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
        elif version < SCHEMA:
            connection.executescript(_FROM_1)
        yield Manifest(connection)


@contextlib.contextmanager
def read(folder: Path) -> Generator[Manifest]:
    """Open the manifest of a folder for reading."""
    if not (folder / NAME).is_file():
        raise UsageError(
            f"there is no {NAME} in this folder", where=str(folder), hint="'onnx-passes batch … -o DIR' writes one"
        )
    with _connected(folder / NAME) as connection:
        if _version(connection, folder) == 0:
            raise UsageError("this manifest is empty", where=str(folder / NAME), hint="run the batch again")
        yield Manifest(connection)


def now() -> str:
    """Return the current time in the format of the manifest."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextlib.contextmanager
def _connected(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a database; every statement is a transaction of its own."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            yield connection
    except sqlite3.DatabaseError as error:
        raise UsageError(
            f"the manifest cannot be used: {error}", where=str(path), hint="move it away to run all models again"
        ) from error


def _version(connection: sqlite3.Connection, folder: Path) -> int:
    """Return the version of the tables, 0 if there are none. Raises UsageError for other versions."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= SCHEMA:
        raise UsageError(
            f"the manifest has version {version}, but this program writes {SCHEMA}",
            where=str(folder / NAME),
            hint="name another folder, or move the manifest away",
        )
    return version


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Prevent other programs from writing to a folder; the system releases the lock when the program ends."""
    with contextlib.closing(sqlite3.connect(folder / _LOCK, isolation_level=None, timeout=0)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise UsageError(
                f"another run writes to this folder ({error})", where=str(folder), hint="wait for it, or end it"
            ) from error
        yield


def _of_today(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of version 1, which is not rewritten, as one of this version."""
    is_unverified = row["status"] == "ok" and row["evidence"] == "unverified"
    return {"host": "", "computed_with": "{}", **row, **({"status": "unverified"} if is_unverified else {})}


def _parsed(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {**row, **{name: json.loads(row[name] or "{}") for name in names}}
