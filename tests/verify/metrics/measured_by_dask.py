"""A program that measures on a cluster of Dask, and prints what it found: ``ADDRESS IMAGES LABELS [MARK]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from onnx_passes.workers.cluster import dask_cluster
from tests.verify.metrics.test_shards import measured, with_a_loss

if __name__ == "__main__":
    address, images, labels, *mark = sys.argv[1:]
    data = Path(images), Path(labels)
    with dask_cluster(address) as cluster:
        assert cluster.size == 2
        sys.stdout.write(json.dumps(with_a_loss(data, cluster, Path(mark[0])) if mark else measured(data, cluster)))
