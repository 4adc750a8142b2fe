"""Simplify models with us and our peers in one run: nodes left, CPU time, what is wrong, invalid or refused.

    python benchmarks/simplify.py --peers PYTHON [--out FOLDER] [--tools TOOL…] MODEL-OR-FOLDER…

PYTHON is the interpreter of an environment of peers.txt. On each model the tools take turns, each in a process of its
own that is warm; one that dies or takes too long is started again. What they write is checked, run in ONNX Runtime and
compared with the original. A folder that zoo.py filled has its models' classes in its manifest; other models are of the
class of their folder. FOLDER gets simplify.json, and simplify.md with the goals, the classes and the
models; out/results.json gets what the documentation shows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from counting import operators_in
from simplify_one import ANSWER
from simplify_result import record_simplify
from simplify_table import OURS, PEERS, markdown, nodes

import onnx_passes
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.coverage import run_samples

HERE = Path(__file__).parent
TIMEOUT = 600
ATOL, RTOL = 1e-3, 1e-2
"""What simplifying may change by rounding; random weights make large numbers."""

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", required=True, help="interpreter of the environment of peers.txt")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--tools", nargs="+", default=[*PEERS, *OURS], choices=[*PEERS, *OURS])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[Figures] = []
    tools = {name: Tool(name, sys.executable if name in OURS else arguments.peers) for name in arguments.tools}
    for path, kind in found(arguments.models):
        row = simplified(path, kind, tools)
        rows.append(row)
        cells = (f"{tool} {text(cell)}" for tool, cell in row["tools"].items())
        print(f"{row['model'][:44]:45}{nodes(row):6}  " + "  ".join(cells), flush=True)
        (arguments.out / "simplify.json").write_text(json.dumps(rows, indent=1) + "\n")
        (arguments.out / "simplify.md").write_text(markdown(rows))
    for tool in tools.values():
        tool.close()
    if rows:
        record_simplify(rows)
    print(markdown(rows).split("\n## ")[0])


def found(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """Find models and say of which class they are."""
    for path in paths:
        if not path.is_dir():
            yield path, path.parent.name
            continue
        manifest = path / "manifest.json"
        about = {model["name"]: model for model in json.loads(manifest.read_text())} if manifest.exists() else {}
        for model in sorted(path.glob("*.onnx")):
            known = about.get(model.stem)
            yield model, path.name if known is None else f"{known['library']}, {known['exporter']}"


def simplified(path: Path, kind: str, tools: Mapping[str, Tool]) -> Figures:
    """Simplify one model with all tools, and judge what they made."""
    original = Original(path)
    cells: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, tool in tools.items():
            output = Path(folder) / f"{name}.onnx"
            cells[name] = tool.simplify(path, output)
            if cells[name]["status"] == "ok":
                cells[name] |= original.judge(output)
    return {"model": path.stem, "class": kind, "operators": original.operators, "tools": cells}


class Tool:
    """A process that simplifies models with one tool."""

    def __init__(self, name: str, python: str):
        self.command = [python, str(HERE / "simplify_one.py"), name]
        # A peer is an earlier version of this package: it must not find this one.
        self.environment = {key: text for key, text in os.environ.items() if name in OURS or key != "PYTHONPATH"}
        self.process: subprocess.Popen[str] | None = None

    def simplify(self, model: Path, output: Path) -> Figures:
        if self.process is None or self.process.poll() is not None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=self.environment
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watch = threading.Timer(TIMEOUT, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(json.dumps([str(model), str(output)]) + "\n")
            self.process.stdin.flush()
            answers = (line for line in self.process.stdout if line.startswith(ANSWER))
            answer = json.loads(next(answers, "{}").removeprefix(ANSWER))
        except BrokenPipeError:
            answer = {}
        finally:
            watch.cancel()
        if "cpu" in answer:
            return {"status": "ok", **answer}
        self.close()
        return {"status": "refused", "detail": answer.get("failure", "the process ended, or took too long")[:200]}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Original:
    """A model as it was, and what it computes from samples."""

    def __init__(self, path: Path):
        self.executor = Executor()
        self.operators = operators_in(path)
        model = onnx_passes.load(path)
        self.prepared = self.executor.prepare(model)
        self.samples, self.expected = run_samples(self.prepared, model, (), 0)

    def judge(self, path: Path) -> Figures:
        """Say whether a model is valid and computes the same, and by how much it differs."""
        try:
            onnx.checker.check_model(str(path))
            prepared = self.executor.prepare(onnx_passes.load(path), engine=self.prepared.engine)
            pairs = zip(self.samples, self.expected, strict=True)
            results = [compare(wanted, prepared.run(sample)) for sample, wanted in pairs]
        except Exception as problem:  # noqa: BLE001 - whatever it is, the file is of no use
            return {"status": "invalid", "detail": f"{type(problem).__name__}: {problem}"[:200]}
        worst = max((result.max_abs or 0.0 for result in results if not result.equal), default=0.0)
        right = all(result.within(ATOL, RTOL) for result in results)
        wrong = next((result.describe() for result in results if not result.within(ATOL, RTOL)), "")
        return {"status": "ok" if right else "wrong", "detail": wrong[:200], "error": worst}


def text(cell: Figures) -> str:
    figures = f"{nodes(cell)} {cell['cpu']:.2f}s" if "cpu" in cell else ""
    return figures if cell["status"] == "ok" else f"{cell['status'].upper()} {figures}".strip()


if __name__ == "__main__":
    main()
