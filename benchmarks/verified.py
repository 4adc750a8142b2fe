"""Whole commands on whole models: is a simplified model verified, how well, at what cost, and in how much memory.

    python benchmarks/verified.py --peers PYTHON [--out FOLDER] [--seeds N] [--pipeline TEXT] MODEL-OR-FOLDER…

PYTHON is the interpreter of an environment of peers.txt. For each model the command runs verified, once for each seed,
unverified, and onnxslim runs, by turns; CPU seconds are those of the whole command, its processes and imports included,
the least of its runs; memory is that of its largest process. FOLDER gets verified.json, from which models are not
measured again, and verified.md: a row for each model, then what is not verified or refused, and why.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 900
REFUSED = 1
"""The exit code of a run that failed verification."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """What a command took, and how it ended."""

    cpu: float
    megabytes: float
    exit: int
    out: str
    errors: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", required=True, help="interpreter of the environment of peers.txt")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pipeline", default="simplify")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "verified.json"
    rows: dict[str, Row] = json.loads(kept.read_text()) if kept.exists() else {}
    for path in found(arguments.models):
        if str(path) in rows:
            continue
        rows[str(path)] = row = measured(path, arguments.pipeline, arguments.seeds, arguments.peers)
        print(" ".join(cells(path.stem, row)), flush=True)
        kept.write_text(json.dumps(rows, indent=1) + "\n")
        (arguments.out / "verified.md").write_text(markdown(rows))
    print(goals(rows.values()))


def found(paths: Iterable[Path]) -> list[Path]:
    return [model for path in paths for model in (sorted(path.glob("*.onnx")) if path.is_dir() else [path])]


def measured(path: Path, pipeline: str, seeds: int, peers: str) -> Row:
    """Run all commands by turns: one that is not verified costs nothing that could be compared."""
    verified: list[Cost] = []
    plain: list[Cost] = []
    slim: list[Cost] = []
    # Users have compiled modules.
    mine = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.onnx"
        ours = [sys.executable, "-m", "onnx_passes", "-o", str(output), str(path), pipeline, "--json"]
        ours += ["--repro", str(Path(folder) / "repro")]
        for seed in range(seeds):
            verified.append(run([*ours, "--seed", str(seed)], mine))
            if seed < max(2, seeds // 2):
                plain.append(run([*ours, "--verify", "off"], mine))
                slim.append(run([peers, "-m", "onnxslim", str(path), str(output)], {**mine, "PYTHONPATH": ""}))
    return {
        "verified": least(verified),
        "unverified": least(plain),
        "onnxslim": least(slim),
        "memory": max(cost.megabytes for cost in verified),
        "memory unverified": max(cost.megabytes for cost in plain),
        "levels": [level(cost) for cost in verified],
        "reason": next((reason for cost in verified if (reason := obstacle(cost))), ""),
        "onnxslim exit": slim[0].exit,
    }


def run(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command; its CPU time and memory are those of all its processes that it waited for."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, env=environment)
        watch = threading.Timer(TIMEOUT, process.kill)
        watch.start()
        _, status, used = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        cpu = used.ru_utime + used.ru_stime
        return Cost(cpu, used.ru_maxrss / 1024, process.returncode, out.read(), errors.read())


def least(costs: Sequence[Cost]) -> float:
    return round(min(cost.cpu for cost in costs), 2)


def level(cost: Cost) -> str:
    """Return what is known of the result of a run, and how."""
    if cost.exit == 0:
        return str(json.loads(cost.out)["level"]) or "not verified"
    return "refused" if cost.exit == REFUSED else f"exit {cost.exit}"


def obstacle(cost: Cost) -> str:
    """Return why a result is not verified, from what the command says."""
    if cost.exit not in (0, REFUSED):
        return " ".join(cost.errors.split())[-300:]
    lines = [line.strip() for line in cost.errors.splitlines()]
    if cost.exit == REFUSED:
        return " ".join(line for line in lines if line.startswith(("error", "Error")))[:300] or " ".join(lines)[-300:]
    return next((line[:300] for line in lines if line.startswith("not verified")), "")


def is_verified(row: Row) -> bool:
    return all(":" in level or level == "unchanged" for level in row["levels"])


def cells(name: str, row: Row) -> list[str]:
    """Return the row of a model."""
    levels = ", ".join(dict.fromkeys(row["levels"]))
    figures = [f"{row[key]:.2f}" for key in ("verified", "unverified", "onnxslim")]
    ratios = [f"{row['verified'] / max(row[key], 0.01):.2f}" for key in ("unverified", "onnxslim")]
    return [name, levels, *figures, *ratios, f"{row['memory']:.0f}", f"{row['memory unverified']:.0f}"]


def markdown(rows: Mapping[str, Row]) -> str:
    head = ("model", "evidence", "verified", "unverified", "onnxslim", "v/u", "v/s", "MB", "MB unverified")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cells(Path(name).stem, row))} |" for name, row in rows.items()]
    failures = [
        f"- {name}: {', '.join(row['levels'])}: {row['reason']}" for name, row in rows.items() if not is_verified(row)
    ]
    return "\n".join((goals(rows.values()), "", *lines, "", "Not verified:", "", *failures)) + "\n"


def goals(rows: Iterable[Row]) -> str:
    """Say how far verification is from what it may cost."""
    rows = list(rows)
    counted = [row for row in rows if is_verified(row)]
    if not counted:
        return f"0 of {len(rows)} verified"
    ratios = [row["verified"] / max(row["unverified"], 0.01) for row in counted]
    peers = [row for row in counted if row["onnxslim exit"] == 0]
    ours, theirs = sum(row["verified"] for row in peers), sum(row["onnxslim"] for row in peers)
    spread = f"median {statistics.median(ratios):.2f}, most {max(ratios):.2f}, above 4 on {sum(r > 4 for r in ratios)}"
    return (
        f"{len(counted)} of {len(rows)} verified with every seed; verified / unverified CPU: {spread}; "
        f"verified / onnxslim's CPU: {ours:.1f} / {theirs:.1f} s = {ours / max(theirs, 0.01):.2f} on {len(peers)}"
    )


if __name__ == "__main__":
    main()
