"""An engine for tests: movement of data is the same for all values if it is for labels, by parametricity."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.testing.prove.prover import RuleClaim
from onnx_passes.verify.run.execute import Executor


def labelled(before: ir.Model, after: ir.Model, promise: RuleClaim) -> Proof | Unproved:
    """Run both models on labels in ONNX Runtime."""
    count = 0
    feed: dict[str, np.ndarray] = {}
    for value in before.graph.inputs:
        shape = [int(size) for size in value.shape or ()]
        size = int(np.prod(shape))
        labels = np.arange(count + 1, count + size + 1).reshape(shape)
        feed[str(value.name)] = labels.astype(value.dtype.numpy())
        count += size
    old, new = (Executor().prepare(model).run(feed) for model in (before, after))
    same = all(old[name].shape == new[name].shape and (old[name] == new[name]).all() for name in old)
    return Proof("proved", "labelled run") if same else Unproved("labels differ", refuted=True)
