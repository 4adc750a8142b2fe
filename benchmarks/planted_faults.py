"""How many planted faults verification finds: rewrites that are right nearly everywhere, on small models.

    python benchmarks/planted_faults.py [--seeds N] [--missed] [NAME…]

Every fault is planted once for each seed and setting. A fault counts as found when the run fails; as missed when it
passes. With NAME only faults that have one of the words in their name or kind are planted.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from onnx_passes import apply
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.verification import Verification
from tests.planted import rare_edges, rare_shapes, rare_specials
from tests.planted.planting import Fault

FAULTS = [*rare_edges.FAULTS, *rare_specials.FAULTS, *rare_shapes.FAULTS]
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "without special values": {"special": False},
    "1 sample": {"samples": 1, "special": False},
    "3 samples": {"samples": 3, "special": False},
    "3 samples, special values": {"samples": 3, "special": True},
    "30 samples": {"samples": 30, "special": False},
}


def is_found(fault: Fault, seed: int, settings: Mapping[str, Any]) -> bool:
    """Run a wrong pass; tells whether the run fails."""
    try:
        result = apply(fault.model(), fault.pass_class(), verify=Verification(seed=seed, **settings))
    except PostconditionError:
        return True
    if not result.modified:
        raise SystemExit(f"'{fault.name}' was not planted: the rule does not apply")
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--missed", action="store_true", help="list what the default settings miss")
    arguments = parser.parse_args()
    wanted = [f for f in FAULTS if not arguments.names or any(n in f.name or n in f.kind for n in arguments.names)]
    print(f"{len(wanted)} faults of {len({fault.kind for fault in wanted})} kinds, {arguments.seeds} seeds")
    for title, settings in SETTINGS.items():
        missed: Counter[str] = Counter()
        for fault in wanted:
            for seed in range(arguments.seeds):
                missed[f"{fault.kind}: {fault.name}"] += not is_found(fault, seed, settings)
        total = len(wanted) * arguments.seeds
        print(f"{title:28} found {total - missed.total()} of {total}, {1 - missed.total() / total:.1%}")
        if arguments.missed and title == "default":
            for name, times in missed.most_common():
                if times:
                    print(f"    missed {times} of {arguments.seeds}: {name}")


if __name__ == "__main__":
    main()
