"""Run the tests of a package on each of its mutants: ``python -m tests.mutants [LIST…] [--jobs N]``.

A list is a file of this folder: the package, its tests, and changes of text in its files. A change that tests do not
notice survives; where it may, the list says why. The exit code is 1 if others survive.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.mutants.running import read, run

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", nargs="*", help="names of lists, such as 'proving'; all if none is given")
    parser.add_argument("--only", default="", help="only mutants of files with this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    paths = [HERE / f"{name}.toml" for name in arguments.lists] or sorted(HERE.glob("*.toml"))
    failed = False
    for path in paths:
        listed = read(path)
        listed = replace(listed, mutants=tuple(each for each in listed.mutants if arguments.only in each.file))
        result = run(listed, arguments.jobs)
        print(f"{listed.package}: {result.killed} of {len(listed.mutants)} mutants killed in {result.seconds:.0f} s")
        for mutant in result.survivors:
            failed = failed or not mutant.survives
            print(
                f"  survives: {mutant.file}: {mutant.new.strip()}" + (f" ({mutant.survives})" * bool(mutant.survives))
            )
        for mutant in result.excused:
            failed = True
            print(f"  is killed, but said to survive: {mutant.file}: {mutant.new.strip()}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
