"""Simplify models with us and our peers in one run: nodes left, CPU time, errors, failures.

    python benchmarks/simplify.py --peers PYTHON [MODEL…]

PYTHON is the interpreter of an environment with onnxsim, onnxslim, onnxoptimizer and onnxscript. Every tool runs in a
process of its own; `error` is the largest absolute difference to the original on the same inputs, in ONNX Runtime.
The second table says where our time goes: into running models in ONNX Runtime, into its sessions, into shapes with
dynamic dimensions, and into all the rest; and what part of onnxslim's and onnxsim's time it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx_passes
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.equivalence import compare_models

PEERS = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript")
OURS = ("ours", "ours_unverified")
HERE = Path(__file__).parent


def run(tool: str, python: str, model: Path, folder: Path) -> dict[str, object]:
    output = folder / f"{tool}.onnx"
    output.unlink(missing_ok=True)
    command = [python, str(HERE / "simplify_one.py"), tool, str(model), str(output)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return {"failure": "more than 600 s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["?"])[-1][:60]}
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    return {**figures, "error": error(model, output)}


def error(before: Path, after: Path) -> str:
    try:
        twins = compare_models(onnx_passes.load(before), onnx_passes.load(after))
    except (OnnxPassesError, ValueError) as problem:
        return f"? {str(problem)[:40]}"
    if twins.equal:
        return "0"
    worst = max((result.max_abs or 0.0 for result in twins.results), default=0.0)
    return f"{worst:.1e}" if twins.within(1e-3, 1e-2) else f"WRONG {worst:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", required=True)
    arguments = parser.parse_args()
    tools = [*((tool, arguments.peers) for tool in PEERS), *((tool, sys.executable) for tool in OURS)]
    print(f"{'model':28}" + "".join(f"{tool:>26}" for tool, _ in tools))
    print(f"{'':28}" + f"{'nodes   CPU s      error':>26}" * len(tools))
    fewest = fastest = 0
    shares: list[str] = []
    for model in arguments.models:
        cells: dict[str, dict[str, object]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for tool, python in tools:
                cells[tool] = run(tool, python, model, Path(folder))
        print(f"{model.stem[:27]:28}" + "".join(f"{text(cells[tool]):>26}" for tool, _ in tools), flush=True)
        peers = [int(str(cells[tool]["nodes"])) for tool in PEERS if "nodes" in cells[tool]]
        mine = cells["ours"]
        fewest += "nodes" in mine and int(str(mine["nodes"])) <= min(peers, default=10**9)
        shares += [
            f"{model.stem[:27]:28}" + share(cells, "ours", "onnxslim") + share(cells, "ours_unverified", "onnxsim")
        ]
        slim = cells["onnxslim"].get("cpu")
        fastest += "cpu" in mine and slim is not None and 3 * float(str(mine["cpu"])) <= float(str(slim))
    columns = f"{'running':>10}{'sessions':>10}{'symbols':>10}{'rest':>10}"
    print(f"\n{'':28}{'verified':>12}{columns}{'/ onnxslim':>12}{'unverified':>12}{columns}{'/ onnxsim':>12}")
    print("\n".join(shares))
    total = len(arguments.models)
    print(f"no more nodes than the best peer on {fewest} of {total}; at most a third of onnxslim's time on {fastest}")


def share(cells: dict[str, dict[str, object]], tool: str, peer: str) -> str:
    """Say how the time of one of our runs is spent, in parts of it, and what part of a peer's time it is."""
    mine = cells[tool]
    if "cpu" not in mine:
        return f"{'fails':>64}"
    cpu, other = float(str(mine["cpu"])), float(str(cells[peer].get("cpu", "nan")))
    parts = [float(str(mine[key])) / cpu for key in ("running", "sessions", "symbols")]
    columns = "".join(f"{part:10.0%}" for part in (*parts, 1 - sum(parts)))
    return f"{cpu:12.3f}{columns}{cpu / other:12.2f}"


def text(cell: dict[str, object]) -> str:
    if "failure" in cell:
        return "fails"
    return f"{cell['nodes']} {float(str(cell['cpu'])):7.3f} {cell['error']!s:>10}"


if __name__ == "__main__":
    main()
