"""Two checkouts of onnx-passes on the same models: does a change of the code change what it computes, proves or costs?

    python benchmarks/two_checkouts.py --old FOLDER --new FOLDER [--pipeline TEXT] [--out FILE] MODEL-OR-FOLDER…

Either checkout runs in a process of its own, which keeps what it has imported; on each model the two take turns, and
CPU seconds are those of the run and of the processes that it started. Results are compared by their structural digest,
as the new checkout computes it, runs by the evidence of the run and by how many rewrites are proved, and how.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from verified import found

Run = dict[str, Any]
_SIDES = ("old", "new")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--old", type=Path, help="folder of the checkout to compare with")
    parser.add_argument("--new", type=Path, help="folder of the checkout that is compared")
    parser.add_argument("--pipeline", default="simplify")
    parser.add_argument("--out", type=Path, help="where results of each model go, as JSON")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    if arguments.old is None or arguments.new is None or not arguments.models:
        parser.error("--old FOLDER, --new FOLDER and models are needed")
    workers = {side: started(getattr(arguments, side)) for side in _SIDES}
    rows: dict[str, dict[str, Run]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in found(arguments.models):
            rows[str(path)] = row = {}
            for side in _SIDES:
                row[side] = ask(workers, side, arguments, path, Path(folder) / f"{side}.onnx")
            if row["old"].get("digest") and row["new"].get("digest"):
                again = told(workers["new"], {"digest": str(Path(folder) / "old.onnx")})
                row["old"]["digest"] = again["digest"]
            for difference in differences(row):
                print(f"{path}: {difference}", flush=True)
            if arguments.out is not None:
                arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(summary(rows.values()))


def started(checkout: Path) -> subprocess.Popen[str]:
    """Start a process that imports the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    command = [sys.executable, __file__, "--work"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(
    workers: dict[str, subprocess.Popen[str]], side: str, arguments: argparse.Namespace, path: Path, output: Path
) -> Run:
    """Let one checkout run a model; one whose process ends is started again."""
    request = {"model": str(path), "pipeline": arguments.pipeline, "output": str(output)}
    try:
        return told(workers[side], request)
    except (BrokenPipeError, json.JSONDecodeError):
        status = workers[side].wait()
        workers[side] = started(getattr(arguments, side))
        return {"error": f"the process ended with status {status}"}


def told(worker: subprocess.Popen[str], request: dict[str, str]) -> Run:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(request) + "\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def work() -> None:
    """Answer requests, a line of JSON each, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    # What libraries print must not be taken for an answer.
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"digest": digest(request["digest"])} if "digest" in request else run(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def run(model: str, pipeline: str, output: str) -> Run:
    """Run a pipeline, verified, and write its result."""
    import onnx_passes

    before = cpu_seconds()
    try:
        result = onnx_passes.apply(model, pipeline)
    except Exception as error:  # noqa: BLE001 - the other checkout may do better
        return {"error": f"{type(error).__name__}: {error}", "cpu": cpu_seconds() - before}
    cost = cpu_seconds() - before
    result.save(output)
    proofs = [proof for step in result.steps for proof in step.proofs]
    kinds = Counter(f"{proof.preserves[0]}:{proof.known}" if proof.is_proof else "not proved" for proof in proofs)
    reasons = Counter(proof.reason for proof in proofs if not proof.is_proof)
    return {
        "cpu": cost,
        "digest": digest(output),
        "level": str(result.record.level),
        "applications": result.record.applications,
        "proofs": dict(sorted(kinds.items())),
        "reasons": dict(reasons),
    }


def digest(path: str) -> str:
    import onnx_ir as ir

    from onnx_passes.graph.hashing.fingerprint import structural_hash

    return structural_hash(ir.load(path)).hex()


def cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def differences(row: dict[str, Run]) -> list[str]:
    old, new = (row[side] for side in _SIDES)
    if "error" in old or "error" in new:
        return (
            [] if old.get("error") == new.get("error") else [f"{old.get('error', 'ran')} -> {new.get('error', 'ran')}"]
        )
    return [
        f"{what} {old[what]} -> {new[what]}"
        for what in ("digest", "level", "applications", "proofs")
        if old[what] != new[what]
    ]


def summary(rows: Iterable[dict[str, Run]]) -> str:
    both = [row for row in rows if not any("error" in row[side] for side in _SIDES)]
    costs = [sum(row[side]["cpu"] for row in both) for side in _SIDES]
    proved = [sum((Counter(row[side]["proofs"]) for row in both), Counter[str]()) for side in _SIDES]
    lines = [f"{len(both)} models ran under both, {sum(not differences(row) for row in both)} without any difference"]
    lines.append(f"CPU {costs[0]:.1f} s -> {costs[1]:.1f} s ({costs[1] / max(costs[0], 1e-9):.2f})")
    lines += [f"{name}: {dict(sorted(counts.items()))}" for name, counts in zip(_SIDES, proved, strict=True)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
