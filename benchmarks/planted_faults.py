"""How many planted faults verification finds: rewrites that are right nearly everywhere, on small and on large models.

    python benchmarks/planted_faults.py [--seeds N] [--missed] [--default] [NAME…]

Every fault is planted once for each seed and setting. A fault counts as found when the run fails; as missed when it
passes. Besides rules that go wrong there are pairs of models, of which the second is wrong: it is put in by a rewrite
that is checked where it stands, and behind the back of the verification; in a small model, and in one that is not. With
NAME only faults that have one of the words in their name or kind are planted, with ``--default`` only the default
settings are tried.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

sys.path.insert(0, str(Path(__file__).parent.parent))

from onnx_passes import apply
from onnx_passes.check.verification import Verification
from onnx_passes.core.base import Pass
from onnx_passes.verify.failure import PostconditionError
from tests.planted import exchanges_floats, exchanges_integers, networks, rare_edges, rare_shapes, rare_specials

RARE = [*rare_edges.FAULTS, *rare_specials.FAULTS, *rare_shapes.FAULTS]
EXCHANGED = (exchanges_integers, exchanges_floats, networks)
DEFAULT = "default"
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    DEFAULT: {},
    "without special values": {"special": False},
    "1 sample": {"samples": 1, "special": False},
    "3 samples": {"samples": 3, "special": False},
    "3 samples, special values": {"samples": 3, "special": True},
    "30 samples": {"samples": 30, "special": False},
}


@dataclass(frozen=True)
class Planted:
    """A model, and a pass that goes wrong on it."""

    name: str
    kind: str
    model: Callable[[], ir.Model]
    pass_class: type[Pass]


def planted(words: list[str]) -> Iterator[Planted]:
    """Yield the faults that are wanted."""
    for fault in RARE:
        if _is_wanted(fault.name, fault.kind, words):
            yield Planted(fault.name, fault.kind, fault.model, fault.pass_class)
    for module in EXCHANGED:
        for large in (False, True):
            for pair in module.all_of(large=large):
                # What is within a tolerance, or never shows, is no fault.
                if _is_wanted(pair.name, pair.kind, words) and pair.is_shown():
                    yield Planted(pair.name, pair.kind, pair.right, pair.pass_class())
                    yield Planted(f"{pair.name}, unannounced", pair.kind, pair.right, pair.pass_class(announced=False))


def is_found(fault: Planted, seed: int, settings: Mapping[str, Any]) -> bool:
    """Run a wrong pass; tells whether the run fails."""
    try:
        result = apply(fault.model(), fault.pass_class(), verify=Verification(seed=seed, **settings))
    except PostconditionError:
        return True
    if not result.modified:
        raise SystemExit(f"'{fault.name}' was not planted: the rule does not apply")
    return False


def _is_wanted(name: str, kind: str, words: list[str]) -> bool:
    return not words or any(word in name or word in kind for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--missed", action="store_true", help="list what the default settings miss")
    parser.add_argument("--default", action="store_true", help="try only the default settings")
    arguments = parser.parse_args()
    wanted = list(planted(arguments.names))
    print(f"{len(wanted)} faults of {len({fault.kind for fault in wanted})} kinds, {arguments.seeds} seeds")
    for title, settings in SETTINGS.items():
        if arguments.default and title != DEFAULT:
            continue
        missed: Counter[tuple[str, str]] = Counter()
        for fault in wanted:
            for seed in range(arguments.seeds):
                missed[fault.kind, fault.name] += not is_found(fault, seed, settings)
        total = len(wanted) * arguments.seeds
        print(f"{title:28} found {total - missed.total()} of {total}, {1 - missed.total() / total:.1%}")
        if title == DEFAULT:
            for kind in sorted({fault.kind for fault in wanted}):
                of_kind = [times for (other, _), times in missed.items() if other == kind]
                planted_of_kind = len(of_kind) * arguments.seeds
                print(f"    {kind:48} {planted_of_kind - sum(of_kind):5} of {planted_of_kind}")
        if arguments.missed and title == DEFAULT:
            for (kind, name), times in missed.most_common():
                if times:
                    print(f"    missed {times} of {arguments.seeds}: {kind}: {name}")


if __name__ == "__main__":
    main()
