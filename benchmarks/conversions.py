"""Convert models to half precision and to older operator sets, with us and our peers: what runs, and how exact it is.

    python benchmarks/conversions.py --peers PYTHON [--to float16,13,11] [--out FILE] MODEL-OR-FOLDER…

PYTHON is the interpreter of an environment of conversions.txt. Every tool converts every model in a process of its own.
What it writes is run in ONNX Runtime and compared with the original on the same inputs, of which the last has
one row of each mask set to zero. A cell says how many Casts there are and the greatest error, as a part of the greatest
number in the same output; or why there is no result. FILE gets all cells as JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

HALF = "float16"
TIMEOUT = 900
MOST = {HALF: 0.02, "": 1e-3}
"""What an error may be, as a part of the greatest number, in half precision and otherwise."""
Cell = dict[str, Any]


def ours(source: str, target: str, to: str) -> None:
    import onnx_passes

    passes = f"convert-{HALF}" if to == HALF else f"convert-opset{to}"
    onnx_passes.save(onnx_passes.apply(source, passes).model, target)


def ours_lowered(source: str, target: str, to: str) -> None:
    """Convert to an operator set, after what the error names if there is one."""
    import onnx_passes
    from onnx_passes.ops.opsets.convert import OpsetError

    passes = [f"convert-opset{to}"]
    while True:
        try:
            onnx_passes.save(onnx_passes.apply(source, ", ".join(passes)).model, target)
            return
        except OpsetError as error:
            named = [name for name in re.findall(r"lower-[a-z-]+\w", error.hint or "") if name not in passes]
            if not named:
                raise
            passes = [*named, *passes]


def onnxruntime(source: str, target: str, to: str) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def onnxconverter_common(source: str, target: str, to: str) -> None:
    from onnxconverter_common.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def convert_version(source: str, target: str, to: str) -> None:
    import onnx.version_converter

    onnx.save(onnx.version_converter.convert_version(onnx.load(source), int(to)), target)


Convert = Callable[[str, str, str], None]
TOOLS: dict[str, Convert] = {
    tool.__name__: tool for tool in (ours, ours_lowered, onnxruntime, onnxconverter_common, convert_version)
}
HALVING, VERSIONING = ("ours", "onnxruntime", "onnxconverter_common"), ("ours", "ours_lowered", "convert_version")


def main() -> None:
    if sys.argv[1] in TOOLS:
        TOOLS[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", required=True, help="interpreter of the environment of conversions.txt")
    parser.add_argument("--to", default=f"{HALF},13,11", help="float16, or operator sets")
    parser.add_argument("--out", type=Path, help="file for all cells as JSON")
    arguments = parser.parse_args()
    targets = arguments.to.split(",")
    rows: dict[str, dict[str, dict[str, Cell]]] = {to: {} for to in targets}
    for path in [model for given in arguments.models for model in _models(given)]:
        row = _row(path, targets, arguments.peers)
        for to, cells in row.items():
            rows[to][path.stem] = cells
            print(f"{path.stem[:44]:45}{to:8}", "  ".join(f"{tool} {_text(cell)}" for tool, cell in cells.items()))
        sys.stdout.flush()
        if arguments.out:
            arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    for to, found in rows.items():
        print(f"\n## To {to if to == HALF else f'opset {to}'}: {len(found)} models\n")
        print(_table(found) if found else "none")


def _models(path: Path) -> Iterator[Path]:
    yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def _row(path: Path, targets: Sequence[str], peers: str) -> dict[str, dict[str, Cell]]:
    """Convert one model with all tools to all that is asked for, and not there yet."""
    opset = next(entry.version for entry in onnx.load(path, load_external_data=False).opset_import if not entry.domain)
    original = Original(path)
    found: dict[str, dict[str, Cell]] = {}
    for to in targets:
        if to == HALF or int(to) < opset:
            tools = HALVING if to == HALF else VERSIONING
            found[to] = {tool: _cell(original, path, tool, to, peers) for tool in tools}
    return found


def _cell(original: Original, path: Path, tool: str, to: str, peers: str) -> Cell:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.onnx"
        python = sys.executable if tool.startswith("ours") else peers
        command = [python, __file__, tool, str(path), str(target), to]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return {"status": "refused", "detail": "it takes too long"}
        if run.returncode or not target.exists():
            lines = [line for line in run.stderr.splitlines() if line.strip()]
            return {"status": "refused", "detail": next(_reasons(lines), f"exit code {run.returncode}")[:300]}
        return original.judge(target, MOST[HALF if to == HALF else ""])


def _reasons(lines: Sequence[str]) -> Iterator[str]:
    """Yield the last lines of a traceback that say what was raised."""
    yield from (line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line))
    yield from reversed(lines)


class Original:
    """A model as it was, and what it computes from samples."""

    def __init__(self, path: Path):
        import onnx_passes
        from onnx_passes.verify.run.execute import Executor
        from onnx_passes.verify.samples.coverage import run_samples

        model = onnx_passes.load(path)
        self.samples, _ = run_samples(Executor().prepare(model, engine="onnxruntime"), model, (), 0)
        for name, array in self.samples[-1].items():
            if "mask" in name and array.ndim > 1:
                self.samples[-1][name] = array.copy()
                self.samples[-1][name][0] = 0
        self.expected = self._run(path)

    def _run(self, path: Path) -> list[Any]:
        """Run a model as its users do; returns the outputs for all samples, one after the other."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return [array for sample in self.samples for array in session.run(None, sample)]

    def judge(self, path: Path, most: float) -> Cell:
        """Say whether a model loads and computes the same, by how much it differs, and how many Casts it has."""
        try:
            found = self._run(path)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the file is of no use
            return {"status": "invalid", "detail": f"{type(problem).__name__}: {problem}"[:300]}
        error = max(_error(wanted, got) for wanted, got in zip(self.expected, found, strict=True))
        casts = sum(node.op_type == "Cast" for node in onnx.load(path, load_external_data=False).graph.node)
        return {"status": "ok" if error <= most else "wrong", "error": error, "casts": casts}


def _error(wanted: Any, got: Any) -> float:
    """Return the greatest difference as a part of the greatest number; infinity for other shapes, or NaN."""
    import numpy as np

    if wanted.shape != got.shape:
        return float("inf")
    if wanted.dtype.kind != "f":
        return 0.0
    apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    apart[(got == wanted) | (np.isnan(got) & np.isnan(wanted))] = 0
    greatest = np.abs(wanted[np.isfinite(wanted)].astype(np.float64)).max(initial=1e-6)
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0) / greatest)


def _text(cell: Cell) -> str:
    figures = f"{cell['casts']}, {cell['error']:.0e}" if "error" in cell else ""
    return figures if cell["status"] == "ok" else f"{cell['status']} {figures}".strip()


def _table(rows: dict[str, dict[str, Cell]]) -> str:
    tools = list(next(iter(rows.values())))
    counts = {tool: Counter(cells[tool]["status"] for cells in rows.values()) for tool in tools}
    lines = [f"| model | {' | '.join(tools)} |", "|---" * (len(tools) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(_text(cells[tool]) for tool in tools)} |" for name, cells in rows.items()]
    lines += [f"| {status} | {' | '.join(str(counts[tool][status]) for tool in tools)} |" for status in STATUSES]
    failures = Counter(
        (tool, cells[tool]["detail"]) for cells in rows.values() for tool in tools if "detail" in cells[tool]
    )
    lines += ["", *(f"- {tool}, {count}: {detail}" for (tool, detail), count in failures.most_common())]
    return "\n".join(lines)


STATUSES = ("ok", "wrong", "invalid", "refused")


if __name__ == "__main__":
    main()
