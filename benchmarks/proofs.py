"""What is proved of the rewrites of runs, by which method, and what that costs, in CPU time of one process.

    python benchmarks/proofs.py MODEL… [--pipeline TEXT]

Three tables: how many rewrites of each pass are proved, and how far; the methods; and why others are not. The cost is
that of verified runs with proofs less that of verified runs without.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path

from results import record, table

import onnx_passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.evidence import KNOWN, PRESERVED, STEP

_NAMES = re.compile(r"\S*[/:_'.]\S*|\d[\d,]*")
_MOST_REASONS = 15
_NOT_PROVED = "not proved"


def main() -> None:
    """Run models with and without proofs, print tables and keep them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--pipeline", default="streamline")
    given = parser.parse_args()
    levels: dict[str, Counter[str]] = {}
    methods, reasons = Counter[str](), Counter[str]()
    seconds = {True: 0.0, False: 0.0}
    for path in given.models:
        try:
            for prove in (False, True):
                start = time.process_time()
                result = onnx_passes.apply(path, given.pipeline, verify=Verification(prove=prove))
                seconds[prove] += time.process_time() - start
        except OnnxPassesError as error:
            print(f"{path.stem} left out: {error}")
            continue
        for step in result.steps:
            for proof in step.proofs:
                if proof.application == STEP:
                    continue
                levels.setdefault(step.name, Counter())[proof.level or _NOT_PROVED] += 1
                if proof.level:
                    methods[proof.method] += 1
                else:
                    reasons[f"{step.name}: {_NAMES.sub('…', proof.reason)}"] += 1
    _report(given.pipeline, len(given.models), levels, methods, reasons, seconds)


def _report(
    pipeline: str,
    models: int,
    levels: dict[str, Counter[str]],
    methods: Counter[str],
    reasons: Counter[str],
    seconds: dict[bool, float],
) -> None:
    total = sum(levels.values(), Counter[str]())
    possible = [f"{preserved}:{known}" for preserved in PRESERVED for known in KNOWN]
    columns = [*(level for level in possible if total[level]), _NOT_PROVED]
    ordered = sorted(levels.items(), key=lambda row: -row[1].total())
    rows = [[name, *(counts[level] for level in columns), counts.total()] for name, counts in ordered]
    rows.append(["all", *(total[level] for level in columns), total.total()])
    print(f"{'pass':36}" + "".join(f"{text:>16}" for text in (*columns, "rewrites")))
    for name, *counts in rows:
        print(f"{name:36}" + "".join(f"{count:16}" for count in counts))
    print(f"\n{'method':60}{'rewrites':>10}")
    known = [[name, count] for name, count in methods.most_common()]
    for name, count in known:
        print(f"{name:60}{count:10}")
    print("\nnot proved")
    for reason, count in reasons.most_common(_MOST_REASONS):
        print(f"{count:6} {reason}")
    cost, share = seconds[True] - seconds[False], 1 - seconds[False] / max(seconds[True], 1e-9)
    proved = 1 - total[_NOT_PROVED] / max(total.total(), 1)
    text = f"{proved:.1%} proved or proved here; proofs take {cost:.1f} s of {seconds[True]:.1f} s, {share:.0%}"
    print(f"\n{text}")
    tables = [table("Rewrites by level", ["pass", *columns, "rewrites"], rows)]
    tables.append(table("Methods", ["method", "rewrites"], known, ["rewrites"]))
    record(f"proofs-{pipeline}", f"Proofs of rewrites in {pipeline}", f"{models} models; {text}.", tables, [])


if __name__ == "__main__":
    main()
