from __future__ import annotations

from pathlib import Path

import pytest

from onnx_passes.workers.store import Store, name_of


@pytest.fixture(params=["folder", "url"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "folder":
        return Store(str(tmp_path / "store"))
    pytest.importorskip("fsspec")
    return Store(f"memory://{tmp_path.name}")


def test_the_name_says_what_is_in_it(store: Store):
    name = store.put(b"weights", ".bin")
    assert name == f"{name_of(b'weights')}.bin"
    assert store.put(b"weights", ".bin") == name
    path = store.path(name)
    assert path is not None
    assert path.read_bytes() == b"weights"


def test_what_is_not_there(store: Store):
    assert not store.has("nothing")
    assert store.path("nothing") is None


def test_another_machine_fetches_what_it_uses_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "here"))
    name = Store("memory://shared").put(b"model")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "there"))
    other = Store("memory://shared")
    path = other.path(name)
    assert path is not None
    assert path.is_relative_to(tmp_path / "there")
    fsspec.filesystem("memory").rm("/shared", recursive=True)
    assert other.path(name) == path
    assert path.read_bytes() == b"model"
    assert [one.name for one in path.parent.iterdir()] == [name]
