"""How long inference takes before and after passes, in ONNX Runtime as it runs models by default, on one thread.

    python benchmarks/inference.py [--passes simplify] [--rounds 5] [--markdown FILE] MODEL…

Every round makes two new sessions of the original and two of what the passes make of it, and runs them in turns;
`ratio` is the median over the rounds of what is left of the time, `noise` how far two sessions of one model are apart,
which every ratio may be off by. Seconds are processor time, the least of all runs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import onnx_passes
from onnx_passes.check.measuring import timed_sample
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.run.timing import TimedModel, time_in_turns

GOAL, WORST = 0.95, 1.02


@dataclass(frozen=True)
class Row:
    name: str
    nodes: tuple[int, int]
    seconds: tuple[float, float]
    ratio: float
    noise: float

    def cells(self) -> list[str]:
        before, after = (f"{seconds * 1e3:.3f}" for seconds in self.seconds)
        return [self.name, *map(str, self.nodes), before, after, f"{self.ratio:.3f}", f"{self.noise:.1%}"]


HEAD = ["model", "nodes before", "after", "ms before", "after", "ratio", "noise"]


def measure(path: Path, passes: str, rounds: int, seconds: float) -> Row:
    result = onnx_passes.apply(path, passes, verify=False)
    original, sizes = onnx_passes.load(path), result.record
    sample = timed_sample(original)
    ratios: list[float] = []
    noises: list[float] = []
    best = [math.inf, math.inf]
    for _ in range(rounds):
        models = [TimedModel(model, sample) for model in (original, result.model) * 2]
        times = [timing.least for timing in time_in_turns(models, seconds / rounds / 2)]
        before, after = min(times[::2]), min(times[1::2])
        ratios.append(after / before)
        noises.append(max(max(times[i::2]) / min(times[i::2]) - 1 for i in range(2)))
        best = [min(best[0], before), min(best[1], after)]
    nodes = sizes.before.nodes, sizes.after.nodes
    return Row(path.stem, nodes, (best[0], best[1]), statistics.median(ratios), statistics.median(noises))


def line(cells: list[str]) -> str:
    return f"{cells[0][:40]:40}" + "".join(f"{cell:>13}" for cell in cells[1:])


def summary(rows: list[Row]) -> str:
    mean = math.exp(statistics.fmean(math.log(row.ratio) for row in rows))
    slower = [row.name for row in rows if row.ratio > WORST]
    return (
        f"geometric mean {mean:.3f} (goal {GOAL}) over {len(rows)} models; above {WORST}: {', '.join(slower) or 'none'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--passes", default="simplify")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each model runs in all")
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    rows: list[Row] = []
    print(line(HEAD))
    for path in asked.models:
        try:
            rows.append(measure(path, asked.passes, asked.rounds, asked.seconds))
        except OnnxPassesError as error:
            print(f"{path.stem[:40]:40} {str(error)[:100]}", file=sys.stderr)
            continue
        print(line(rows[-1].cells()), flush=True)
    if not rows:
        return
    print(summary(rows))
    if asked.markdown is not None:
        table = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *(row.cells() for row in rows)]
        lines = [f"| {' | '.join(cells)} |" for cells in table]
        asked.markdown.write_text("\n".join([*lines, "", summary(rows), ""]))


if __name__ == "__main__":
    main()
