"""What ``certify`` decides of original and simplified models, and its CPU time beside that of ``simplify``.

    python benchmarks/certify.py MODEL-OR-FOLDER… [--only WORD…] [--effort quick|normal|thorough]

Both run as commands, verified and with all imports; CPU seconds are those of the whole command and its children. For
each model: these, how many times as long ``certify`` takes, and the fragments in which the models differ by the level
that each has: proved, refuted by ONNX Runtime, or not decided. With WORD only models are taken whose name contains one.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from results import record, table

LEVELS = ("proved", "proved-here", "equal-in-reals", "tested", "refuted", "unproved")
_TIMES = 10
"""How many times the CPU time of ``simplify`` is allowed."""
_NAMES = re.compile(r"'[^']*'|\S*\d\S*")
_MOST_REASONS = 12


def main() -> None:
    """Certify models, print tables and keep them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--effort", choices=("quick", "normal", "thorough"), default="normal")
    given = parser.parse_args()
    rows: list[list[str | int | float]] = []
    reasons, total = Counter[str](), Counter[str]()
    print(f"{'model':48}{'simplify s':>12}{'certify s':>12}{'times':>8}" + "".join(f"{x:>16}" for x in LEVELS))
    for path in _found(given.models, given.only):
        with tempfile.TemporaryDirectory() as folder:
            after, certificate = Path(folder, "after.onnx"), Path(folder, "certificate.json")
            simplify = _cpu("simplify", path, after)
            if not after.exists():
                print(f"{path.stem} left out: simplify fails", flush=True)
                continue
            certify = _cpu("certify", path, after, "--json", certificate, "--effort", given.effort)
            windows: list[dict[str, Any]] = (
                json.loads(certificate.read_text())["windows"] if certificate.exists() else [{"level": "unproved"}]
            )
        counts = Counter[str](window["level"] for window in windows)
        total += counts
        reasons.update(_NAMES.sub("…", window.get("reason", "")) for window in windows if window["level"] == "unproved")
        rows.append([path.stem, simplify, certify, round(certify / simplify, 1), *(counts[each] for each in LEVELS)])
        name, *figures = rows[-1]
        print(f"{str(name)[:47]:48}" + "".join(f"{x:>{width}}" for x, width in zip(figures, _WIDTHS, strict=True)),
              flush=True)  # fmt: skip
    for reason, count in reasons.most_common(_MOST_REASONS):
        print(f"{count:6} {reason}"[:160])
    decided = 1 - total["unproved"] / max(total.total(), 1)
    times = [float(row[3]) for row in rows]
    slow = [str(row[0]) for row in rows if float(row[3]) > _TIMES]
    text = (
        f"{len(rows)} models, {total.total()} fragments, {decided:.1%} decided; certify takes at most "
        f"{max(times, default=0.0)} times the CPU of simplify, more than {_TIMES} times on {len(slow)}"
    )
    print(text)
    columns = ["model", "simplify s", "certify s", "times", *LEVELS]
    record(
        "certify", "Certificates of simplified models", f"{text}.", [table("Models", columns, rows, ["times"])], slow
    )


_WIDTHS = (12, 12, 8, *(16 for _ in LEVELS))


def _cpu(*arguments: str | Path) -> float:
    """Run a command; return the CPU seconds that it and its children take."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "onnx_passes", *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


def _found(paths: list[Path], words: list[str]) -> Iterator[Path]:
    for path in paths:
        files = sorted(path.rglob("*.onnx"), key=lambda each: each.stat().st_size) if path.is_dir() else [path]
        yield from (file for file in files if not words or any(word in file.stem for word in words))


if __name__ == "__main__":
    main()
