"""CPU of whole commands on the smallest model, beside the peers: what a start costs.

    python benchmarks/start.py [--peers FOLDER] [--rounds N]

Commands take turns, each in a process of its own that inherits nothing, and the figures are medians of user and system
time, child processes included. FOLDER is the environment of the peers (`make bench` builds it).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import onnx

import onnx_passes

_SOURCES = Path(onnx_passes.__file__).parents[1]
_TEXT = """<ir_version: 8, opset_import: ["": 17]> g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }"""
_IMPORTED = """
import sys
from onnx_passes.cli.main import main
try:
    main()
except SystemExit:
    pass
tops = [name.partition(".")[0] for name in sys.modules]
print("\\n", tops.count("onnx_passes"), tops.count("sympy"), tops.count("onnxscript"))
"""
_AGAIN = """
import sys, time
from onnx_passes.cli.main import main
main(sys.argv[1:])
started = time.process_time()
main(sys.argv[1:])
print("\\n", time.process_time() - started)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(onnx.parser.parse_model(_TEXT), f"{folder}/in.onnx")
        commands = _commands(arguments.peers.resolve() / "bin")
        costs: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(arguments.rounds + 1):
            for name, command in commands.items():
                costs[name].append(_cpu(command, folder))
        # The first round compiles sources and fills the caches of the file system.
        figures = {name: median(each[1:]) for name, each in costs.items()}
        _show(figures)
        for name, options in (("unverified", ["--verify", "off"]), ("verified", [])):
            command = ["simplify", "in.onnx", "out.onnx", "-q", *options]
            ours, sympy, script = _last_line(_IMPORTED, command, folder)
            (again,) = _last_line(_AGAIN, command, folder)
            print(
                f"simplify, {name}: {ours} modules of ours, {sympy} of sympy, {script} of onnxscript; "
                f"again in the same process {1000 * float(again):.0f} ms"
            )


def _commands(peers: Path) -> dict[str, Sequence[str]]:
    ours = [sys.executable, "-m", "onnx_passes"]
    simplify = [*ours, "simplify", "in.onnx", "out.onnx"]
    commands: dict[str, Sequence[str]] = {
        "python": [sys.executable, "-c", "pass"],
        "import onnx_ir, onnxruntime": [sys.executable, "-c", "import onnx_ir, onnxruntime"],
        "onnx-passes --help": [*ours, "--help"],
        "onnx-passes list": [*ours, "list"],
        "onnx-passes explain simplify": [*ours, "explain", "simplify"],
        "onnx-passes simplify --verify off": [*simplify, "--verify", "off"],
        "onnx-passes simplify": simplify,
    }
    for peer in ("onnxsim", "onnxslim"):
        if (peers / peer).exists():
            commands[peer] = [str(peers / peer), "in.onnx", "out.onnx"]
    return commands


def _environment() -> Mapping[str, str]:
    hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    return {**{name: value for name, value in os.environ.items() if name not in hidden}, "PYTHONPATH": str(_SOURCES)}


def _cpu(command: Sequence[str], folder: str) -> float:
    """Run a command; returns its CPU seconds, user and system, with those of its children."""
    process = subprocess.Popen(
        command, cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ends with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime


def _last_line(program: str, arguments: Sequence[str], folder: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[-2].split()


def _show(figures: Mapping[str, float]) -> None:
    peers = [name for name in ("onnxsim", "onnxslim") if name in figures]
    print(f"{'command':36} {'CPU s':>7}" + "".join(f" {'/ ' + peer:>10}" for peer in peers))
    for name, cpu in figures.items():
        print(f"{name:36} {cpu:7.3f}" + "".join(f" {cpu / figures[peer]:10.2f}" for peer in peers))


if __name__ == "__main__":
    main()
