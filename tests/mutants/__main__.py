"""Run the tests of a package on each of its mutants: ``python -m tests.mutants [LIST…] [--jobs N]``.

A list is a file of this folder: the package, its tests, and changes of text in its files. A change that tests do not
notice survives; where it may, the list says why. The exit code is 1 if others survive.

``--random N --seed S PACKAGE`` draws N changes of a package instead, such as ``proofs`` or ``verify/proving/steps.py``:
a blind measure of its tests, which fails nothing. ``--tests`` names other tests than those of the same folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.mutants.random_changes import random_mutants
from tests.mutants.running import SOURCE, Listed, Mutant, Result, read, run

HERE = Path(__file__).parent
KILLERS = HERE / "killers.json"
"""The test that noticed each listed mutant last: it alone is run first, which saves most of the time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", nargs="*", help="names of lists, such as 'proving', or packages; all lists if none")
    parser.add_argument("--only", default="", help="only mutants of files with this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--random", type=int, metavar="N", help="draw so many mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="*", help="arguments of pytest")
    parser.add_argument("--remember", action="store_true", help="write down who noticed each, retry survivors")
    parser.add_argument("--verbose", action="store_true", help="say which test kills each mutant")
    given = parser.parse_args()
    if given.random is not None:
        for package in given.lists:
            tests = given.tests or [
                f"tests/{package.split('.')[0].rpartition('/')[0] if '.py' in package else package}"
            ]
            mutants = random_mutants(f"onnx_passes/{package}", given.random, given.seed, SOURCE, given.only)
            listed = Listed(f"onnx_passes/{package}", tuple(tests), mutants)
            _show(listed, run(listed, given.jobs), verbose=given.verbose)
        return 0
    paths = [HERE / f"{name}.toml" for name in given.lists] or sorted(HERE.glob("*.toml"))
    failed, killers = False, _remembered()
    for path in paths:
        listed = read(path)
        listed = replace(
            listed,
            tests=tuple(given.tests or listed.tests),
            mutants=tuple(each for each in listed.mutants if given.only in each.file),
        )
        result = run(listed, given.jobs, killers=killers, anew=given.remember)
        failed = _show(listed, result, verbose=given.verbose) or failed
        if given.remember:
            _remember({mutant.digest: killer for mutant, killer in result.killers.items() if "::" in killer})
    return int(failed)


def _remembered() -> dict[str, str]:
    return json.loads(KILLERS.read_text()) if KILLERS.exists() else {}


def _remember(killers: dict[str, str]) -> None:
    """Add to what is written down, perhaps by another run in the meantime."""
    known = dict(sorted((_remembered() | killers).items()))
    KILLERS.write_text(json.dumps(known, indent=0, ensure_ascii=False) + "\n")


def _show(listed: Listed, result: Result, *, verbose: bool) -> bool:
    """Print what became of mutants, and return whether any was not as listed."""
    share = result.killed / max(len(listed.mutants), 1)
    print(f"{listed.package}: {result.killed} of {len(listed.mutants)} killed, {share:.1%}, in {result.seconds:.0f} s")
    for mutant in result.survivors:
        reason = f" ({mutant.survives})" * bool(mutant.survives)
        print(f"  survives: {mutant.file}:{_line(mutant)}: {_shown(mutant)}{reason}")
    for mutant in result.excused:
        print(f"  is killed, but said to survive: {mutant.file}: {mutant.new.strip()}")
    for test in result.broken:
        print(f"  fails without any change: {test}")
    if verbose:
        for mutant, killer in result.killers.items():
            print(f"  killed by {killer}: {mutant.file}:{_line(mutant)}: {_shown(mutant)}")
    sys.stdout.flush()
    return bool(result.excused) or bool(result.broken) or any(not mutant.survives for mutant in result.survivors)


def _line(mutant: Mutant) -> int:
    return mutant.path().read_text().split(mutant.old)[0].count("\n") + 1


def _shown(mutant: Mutant) -> str:
    """Return the lines that differ."""
    old, new = mutant.old.splitlines(), mutant.new.splitlines()
    lost = [line.strip() for line in old if line not in new]
    made = [line.strip() for line in new if line not in old]
    return f"{' ⏎ '.join(lost)}  →  {' ⏎ '.join(made)}"


if __name__ == "__main__":
    sys.exit(main())
