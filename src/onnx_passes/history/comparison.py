"""The difference of two models as a recording of one step, by the computations of nodes and not by names."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.measure import measure
from onnx_passes.core.records import RunRecord, Status, StepRecord
from onnx_passes.graph.alignment import Alignment
from onnx_passes.graph.changes import changed_nodes
from onnx_passes.graph.hashing.content import Contents
from onnx_passes.graph.wording import operator_name
from onnx_passes.history.items import input_names, output_names
from onnx_passes.history.live import Live
from onnx_passes.history.recording import Recording
from onnx_passes.history.versions import Changes, NodeVersion


def compare(before: ir.Model, after: ir.Model, text: str = "comparison") -> Recording:
    """Record the change from one model to another as one step."""
    sizes = measure(before), measure(after)
    step = StepRecord(1, "comparison", text, "", status=Status.DONE, modified=True)
    step.nodes_before, step.nodes_after = sizes[0].nodes, sizes[1].nodes
    run = RunRecord(text, *sizes, steps=[step])
    recording = Recording()
    live = recording.begin(run, before)
    contents = Contents()
    alignment = Alignment(before.graph, after.graph, contents)
    changed = {live.nodes[each.before].version for each in changed_nodes(alignment, contents)}
    for old, new in alignment.nodes.items():
        _stand_for(live, old, new, is_changed=live.nodes[old].version in changed)
    changes = live.look(after)
    _forgive_names(changes, changed)
    recording.note(step, changes)
    return recording


def _stand_for(live: Live, old: ir.Node, new: ir.Node, *, is_changed: bool) -> None:
    version = live.nodes[old].version
    looks = operator_name(new), new.name or "", input_names(new), output_names(new)
    is_same = not is_changed and looks == (version.op, version.name, version.inputs, version.outputs)
    live.stand_for(old, new, is_same=is_same)


def _forgive_names(changes: Changes, changed: set[NodeVersion]) -> None:
    """Treat nodes that were only renamed as nodes with other inputs, as their computation is the same."""
    renamed = {
        old: new
        for new, old in changes.links
        if isinstance(old, NodeVersion) and isinstance(new, NodeVersion) and old not in changed and old.op == new.op
    }
    gone = dict.fromkeys(changes.removed)
    pairs = {old: new for old, new in renamed.items() if old in gone}
    fresh = set(pairs.values())
    changes.removed = [node for node in changes.removed if node not in pairs]
    changes.added = [node for node in changes.added if node not in fresh]
    changes.rewired.extend(pairs.items())
    changes.links = [(new, old) for new, old in changes.links if old not in pairs]
