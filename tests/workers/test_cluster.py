from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.workers import cluster as clusters
from onnx_passes.workers.cluster import cluster_of, require_seen


def test_workers_must_see_what_they_read_and_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "m.onnx"
    with ThreadPoolExecutor(1) as executor, cluster_of(executor, 1) as cluster:
        with pytest.raises(UsageError, match=r"m\.onnx: workers do not see this"):
            require_seen(cluster, file, tmp_path)
        file.touch()
        require_seen(cluster, file, tmp_path)
        monkeypatch.setattr(clusters, "_missing", lambda paths: [path for path in paths if ".seen-" in path])
        with pytest.raises(UsageError, match=f"^{tmp_path}: workers do not see this"):
            require_seen(cluster, file, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
