"""The data of a report for the page and for programs: graphs, numbers over the steps, sources of passes and rules."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from onnx_passes.check.blame.reproducer import versions
from onnx_passes.core.errors import UnknownPassError
from onnx_passes.core.evidence import STEP, RewriteProof
from onnx_passes.core.plain import Json, finite, plain
from onnx_passes.core.records import RunRecord
from onnx_passes.core.registry import REGISTRY
from onnx_passes.core.text import shortened
from onnx_passes.history.constants import type_name
from onnx_passes.history.events import Event
from onnx_passes.history.recording import RecordedState, Recording
from onnx_passes.history.versions import Description, GraphVersion, NodeVersion, ValueVersion
from onnx_passes.ops.describe import family_of, key_of, operand_names
from onnx_passes.report.findings import Findings

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass
    from onnx_passes.core.records import RunRecord


FORMAT = 1
_LONGEST = 400
"""Characters of an attribute that are kept."""


def report_data(recording: Recording, findings: Findings | None = None, *, title: str = "", kind: str = "run") -> Json:
    """Return the data of a run, with the findings about the models before and after it."""
    found = findings or Findings()
    run = recording.run
    assert run is not None, "there is no run yet"
    nodes, values = _all_nodes(recording), _all_values(recording)
    sources = Sources(run)
    proofs = {proof.application: proof for step in run.leaves() for proof in step.proofs}
    return finite(
        {
            "format": FORMAT,
            "version": versions().get("onnx-passes", ""),
            "title": title or " · ".join(filter(None, (recording.file or recording.name, run.pipeline))),
            "kind": kind,
            "model": filled({"name": recording.name, "file": recording.file, "opsets": recording.opsets}),
            "outcome": _outcome(recording),
            "run": _run(run),
            "operators": {name: _operator(name) for name in sorted({node.op for node in nodes})},
            "nodes": [_node(node) for node in nodes],
            "values": [_value(value.description) for value in values],
            "graphs": [_graph(graph) for graph in recording.graphs],
            "original": _state(recording.original),
            "events": [_event(event, sources, proofs.get(event.application)) for event in recording.events],
            "passes": sources.passes,
            "rules": sources.rules,
            "facts": filled({"final": found.final, "original": found.original}, keep=("final",)),
            "blockers": found.blockers,
            "charts": charts(recording, run, found),
        }
    )


def _run(run: RunRecord) -> Json:
    """Return the record of a run, without the place of installation, as reports are passed on."""
    data = plain(run)
    for step, written in zip(run.steps, data["steps"], strict=True):
        if written.pop("proofs", None):
            written["proved"] = Counter(proof.level for proof in step.proofs if proof.application != STEP)
    for rule in (rule for step in data["steps"] for rule in step["rules"]):
        rule["source"] = short_source(rule["source"])
    return data


def filled(data: Mapping[str, Any], keep: Iterable[str] = ()) -> Json:
    """Remove empty entries."""
    kept = set(keep)
    return {key: item for key, item in data.items() if key in kept or item not in (None, "", (), [], {})}


def _all_nodes(recording: Recording) -> list[NodeVersion]:
    versions = list(recording.original.nodes)
    for event in recording.events:
        versions.extend(event.changes.added)
        versions.extend(new for _, new in event.changes.rewired)
    return sorted(versions, key=lambda version: version.number)


def _all_values(recording: Recording) -> list[ValueVersion]:
    versions = list(recording.original.values)
    for event in recording.events:
        versions.extend(new for _, new in event.changes.values if new is not None)
    return sorted(versions, key=lambda version: version.number)


def _state(state: RecordedState) -> Json:
    return {"nodes": [node.number for node in state.nodes], "values": [value.number for value in state.values]}


def _outcome(recording: Recording) -> Json:
    failure = recording.failure
    if failure is None:
        return {"status": "done"}
    return {"status": "failed", "message": failure["message"], "details": plain(failure)}


def _operator(name: str) -> Json:
    operator = key_of(name)
    return filled({"family": family_of(operator), "inputs": operand_names(operator)})


def _node(node: NodeVersion) -> Json:
    domain, _, op = node.op.rpartition("::")
    data = {
        "op": op,
        "domain": domain,
        "name": node.name,
        "graph": node.graph or None,
        "inputs": [name or None for name in node.inputs],
        "outputs": list(node.outputs),
        "attributes": {name: shortened(text, _LONGEST) for name, text in node.texts.items()},
        "scope": _scope(node),
        "graphs": list(node.graphs),
    }
    return filled(data, keep=("inputs", "outputs"))


def _value(value: Description) -> Json:
    kind = value.type
    data = {
        "name": value.name,
        "graph": value.graph or None,
        "type": type_name(kind) if isinstance(kind, ir.DataType) else kind,
        "shape": None if value.shape is None else [d if isinstance(d, int) else d.value for d in value.shape],
        "datatype": value.datatype,
        "constant": None if value.constant is None else value.constant.to_json(),
        "kind": value.kind,
    }
    return filled(data, keep=() if value.shape is None else ("shape",))


def _graph(graph: GraphVersion) -> Json:
    data = {
        "name": graph.name,
        "node": graph.holder,
        "attribute": graph.attribute,
        "parent": graph.parent,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
    }
    return filled(data, keep=("name", "inputs", "outputs"))


def _event(event: Event, sources: Sources, proof: RewriteProof | None) -> Json:
    changes = event.changes
    removed = {node.number for node in changes.removed}
    rule, source = sources.label(event.rule, event.source), short_source(event.source)
    data = {
        "step": event.step,
        "application": event.application or None,
        "rule": rule,
        "source": source if source != sources.rules.get(rule, {}).get("source") else "",
        "node": None if event.root is None else event.root.number,
        "removed": sorted(removed),
        "added": [node.number for node in changes.added],
        "rewired": [[old.number, new.number] for old, new in changes.rewired],
        "matched": [
            node.number for node in event.matched if isinstance(node, NodeVersion) and node.number not in removed
        ],
        "links": _links(event),
        "made": [
            [value.number, node.number]
            for value, node in changes.links
            if isinstance(value, ValueVersion) and isinstance(node, NodeVersion)
        ],
        "values": _values(event),
        "interfaces": [
            {"graph": graph, "inputs": list(inputs), "outputs": list(outputs)}
            for graph, inputs, outputs in changes.interfaces
        ],
        "proof": None if proof is None or not event.application else _proof(proof),
    }
    return filled(data, keep=("removed", "added"))


def _proof(proof: RewriteProof) -> Json:
    named = {"level": proof.level, "method": proof.method, "facts": list(proof.facts), "bound": proof.bound}
    return filled({**named, "reason": proof.reason})


def _values(event: Event) -> Json | None:
    pairs = event.changes.values
    if not pairs:
        return None
    return {
        "removed": [old.number for old, _ in pairs if old is not None],
        "added": [new.number for _, new in pairs if new is not None],
    }


def _links(event: Event) -> list[list[int]]:
    """Return pairs of a new and an old node; none for a rewrite all of whose new nodes come from all old ones."""
    pairs = [(new, old) for new, old in event.changes.links if _are_nodes(new, old)]
    if event.application and pairs:
        linked = {new for new, _ in pairs}
        pairs += [
            (new, old)
            for new in event.changes.added
            if new not in linked
            for old in event.matched
            if _are_nodes(new, old)
        ]
    return [[cast(NodeVersion, new).number, cast(NodeVersion, old).number] for new, old in pairs]


def _are_nodes(*items: object) -> bool:
    return all(isinstance(item, NodeVersion) for item in items)


def _scope(node: NodeVersion) -> list[str]:
    """Return the modules around a node: as the exporter wrote them, or as parts of its name."""
    text = node.scope
    if text.startswith("["):
        try:
            names = cast("list[object]", ast.literal_eval(text))
        except (ValueError, SyntaxError):
            names = []
        return [str(name).rpartition(".")[2] for name in names[:-1] if name]
    if text:
        return [part.partition(":")[0].strip() for part in text.split("/")[:-1] if part.partition(":")[0].strip()]
    return [part for part in node.name.split("/")[:-1] if part]


_SHOWN = 10
_OTHERS = "others"


def charts(recording: Recording, run: RunRecord, found: Findings) -> Json:
    """Return the data of the charts of a report."""
    last = run.steps[-1].number if run.steps else 1
    return {
        "operators": operators(recording),
        "error": [
            {
                "step": step.number,
                "max_abs": step.evidence.max_abs,
                "max_rel": step.evidence.max_rel,
                **({} if step.evidence.max_ulp is None else {"max_ulp": step.evidence.max_ulp}),
            }
            for step in run.steps
            if step.evidence is not None and step.evidence.max_abs is not None
        ],
        "metrics": {
            name: [{"step": s.number, "value": s.metrics[name]} for s in run.steps if name in s.metrics]
            for name in sorted({name for step in run.steps for name in step.metrics})
        },
        "bits": found.bits,
        "integer": [
            {"step": step, "share": share}
            for step, share in zip((0, last), found.shares, strict=True)
            if share is not None
        ],
    }


def operators(recording: Recording) -> list[Json]:
    """Count operators as the model came and after each step that changed their numbers; rare ones together."""
    counts = Counter(node.op for node in recording.original.nodes)
    states = [(0, counts.copy())]
    for event in recording.events:
        counts.update(node.op for node in event.changes.added)
        counts.subtract(node.op for node in event.changes.removed)
        if event.step == states[-1][0]:
            states[-1] = event.step, counts.copy()
        elif counts != states[-1][1]:
            states.append((event.step, counts.copy()))
    most: Counter[str] = Counter()
    for _, state in states:
        most |= state
    shown = {op for op, _ in most.most_common(_SHOWN)}
    return [{"step": step, "counts": _grouped(state, shown)} for step, state in states]


def _grouped(counts: Counter[str], shown: set[str]) -> dict[str, int]:
    grouped: Counter[str] = Counter()
    for op, count in counts.items():
        grouped[op if op in shown else _OTHERS] += count
    return {op: count for op, count in grouped.most_common() if count}


_PACKAGE = Path(__file__).parents[1]


class Sources:
    """The passes of a run, the passes with its rules, and the applied rules.

    Rules of several passes may have one name: ``label`` distinguishes them.
    """

    def __init__(self, run: RunRecord) -> None:
        classes = _classes(run)
        applied = {
            (rule.name, rule.source): rule.owner or step.name
            for step in run.steps
            for rule in step.rules
            if rule.applied
        }
        wanted = {*(step.name for step in run.steps), *applied.values()}
        found = {name: cls for name in sorted(wanted) if (cls := classes.get(name) or _registered(name)) is not None}
        self.passes = {name: _texts(cls) for name, cls in found.items()}
        self._labels = _labels(applied)
        self.rules = {
            self._labels[key]: _rule_texts(key[1], owner, found.get(owner)) for key, owner in sorted(applied.items())
        }

    def label(self, name: str, source: str) -> str:
        """Return the unique label of a rule."""
        return self._labels.get((name, source), name)


def short_source(source: str) -> str:
    """Return a source location relative to this package or the current folder."""
    path, _, line = source.rpartition(":")
    if not path or not line.isdigit():
        return source
    for root, prefix in ((_PACKAGE, _PACKAGE.name), (Path.cwd(), "")):
        if Path(path).is_relative_to(root):
            return f"{Path(prefix, Path(path).relative_to(root)).as_posix()}:{line}"
    return source


def _classes(run: RunRecord) -> dict[str, type[Pass]]:
    return {} if run.plan is None else {step.name: type(step.pass_) for _, step in run.plan.walk()}


def _registered(name: str) -> type[Pass] | None:
    """Return the class of a pass that took part without a step of its own."""
    try:
        entries = REGISTRY.find(name).entries
    except UnknownPassError:
        return None
    return REGISTRY.load(entries[0]) if len(entries) == 1 else None


def _labels(applied: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Return the labels of rules: the name, with pass and line if several rules have this name."""
    names = Counter(name for name, _ in applied)
    owned = Counter((name, owner) for (name, _), owner in applied.items())
    labels: dict[tuple[str, str], str] = {}
    for (name, source), owner in applied.items():
        where = owner if owned[name, owner] == 1 else f"{owner}, line {source.rpartition(':')[2]}"
        labels[name, source] = name if names[name] == 1 else f"{name} ({where})"
    return labels


def _rule_texts(source: str, owner: str, cls: type[Pass] | None) -> dict[str, str]:
    laws: Sequence[object] = getattr(cls, "laws", ())
    law = next((str(law) for law in laws if getattr(law, "source", None) == source), "")
    return {"pass": owner, "source": short_source(source), **({"doc": law} if law else {})}


def _texts(cls: type[Pass]) -> dict[str, str]:
    doc = inspect.getdoc(cls) or ""
    try:
        source = f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        source = cls.__module__
    return {"summary": doc.partition("\n")[0], "doc": doc, "source": short_source(source)}
