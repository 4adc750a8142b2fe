"""Certificates: two models, the windows in which they differ, and what is proved of each; to be checked by anybody."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.analysis.shapes.known_shapes import KnownShapes
from onnx_passes.analysis.shapes.symbolic_engine import infer_symbolically
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.hashing.fingerprint import full_hash, structural_hash
from onnx_passes.graph.operators import STANDARD
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import count
from onnx_passes.numbers.algebra import UnsupportedError
from onnx_passes.proofs.changed_fragments import ChangedFragment, Comparison, Pair, fold_sizes
from onnx_passes.proofs.equal import Effort, prove_equal, told
from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.proof import LEVELS, Assumption, Proof, Unproved
from onnx_passes.proofs.runs import Counterexample, Runner, WholeRuns, drawn, leaves_halves_unrounded
from onnx_passes.proofs.samples import lone_defaults, model_interface_difference, without_inputs
from onnx_passes.proofs.smaller_images import shrink_images

FORMAT = "onnx-passes certificate 2"
"""In the first one, hashes did not cover operator sets of functions, and sizes were no assumption."""
_TOO_LARGE = ("too large", "a window of more")
_INFERENCES = 2
"""How often shapes are inferred, which may depend on sizes that were folded."""
_MOST_ROUNDS = 12
"""How often windows are made larger."""
_MOST_OPENED = 4
"""How often they are made larger for what their variables may have to do with each other."""
_MOST_NODES = 60
"""Nodes of models that are proved in whole where parts of them cannot be."""
_MOST_OPERANDS = 2
"""Operands of one node that are proved to be the same instead of what the node computes."""
_MOST_DEPTH = 3
_SECONDS_OF_RUNS = 20.0
_ORDINARY = 4
"""Ordinary inputs on which models run that differ by rounding."""
_NOT_COMPARED = ("example", "reason")
"""What may be another one each time: an example that was found, and how long the solver took."""
SECONDS: Mapping[Effort, float] = {"quick": 2.0, "normal": 5.0, "thorough": 300.0}
"""CPU time for windows: after it no window is made larger, and after twice as much none is proved."""
_ROUNDED = Assumption(
    "every result of float16 is rounded, as ONNX says; ONNX Runtime keeps some in float32", "equal-in-reals"
)
_OUT_OF_TIME = Unproved("not decided: the time for windows is spent; a greater effort has more")
_ORDER = (*LEVELS, "unproved", "refuted")
_PACKAGES = ("onnx-passes", "onnx", "onnx-ir", "onnxruntime", "numpy", "z3-solver")


@dataclass(frozen=True)
class WindowResult:
    """What is known of one value that both models compute, in different ways."""

    output: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    result: Proof | Unproved
    is_confirmed: bool = False
    """ONNX Runtime computes different bits for the whole models on the example that refutes it."""
    root: ir.Value | None = field(default=None, compare=False, repr=False)
    """The value, in the first model."""

    @property
    def level(self) -> str:
        """Return how strong the proof is."""
        if isinstance(self.result, Proof):
            return self.result.level
        return "refuted" if self.is_confirmed else "unproved"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        told = {"output": self.output, "before": list(self.removed), "after": list(self.added)}
        example = getattr(self.result, "example", None)
        shown = {} if not self.is_confirmed or example is None else {"example": _listed(example)}
        return {**told, **self.result.to_json(), "level": self.level, **shown}


@dataclass(frozen=True)
class ModelCertificate:
    """All windows of two models; their hashes, and the versions that it was made with."""

    before: str
    after: str
    windows: tuple[WindowResult, ...]
    allow: tuple[str, ...]
    versions: Mapping[str, str]
    facts: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """Return the level of the weakest window; models without any are the same."""
        return max((window.level for window in self.windows), key=_ORDER.index, default=LEVELS[0])

    @property
    def is_refuted(self) -> bool:
        """Tell whether ONNX Runtime confirms that a window computes something else."""
        return any(window.level == "refuted" for window in self.windows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "format": FORMAT,
            "level": self.level,
            "before": self.before,
            "after": self.after,
            "allow": list(self.allow),
            "facts": list(self.facts),
            "windows": [window.to_json() for window in self.windows],
            "versions": dict(self.versions),
        }


def certify(
    before: ir.Model,
    after: ir.Model,
    *,
    effort: Effort = "normal",
    allow: Collection[str] = ROUNDING,
    solver: bool = True,
    sized: tuple[ir.Model, ir.Model] | None = None,
    facts: tuple[str, ...] = (),
) -> ModelCertificate:
    """Prove window by window that two models with known sizes compute the same.

    Where sizes are not known, ``sized`` are the same models with chosen ones, of which ``facts`` tells, and with
    inferred shapes. A proof for these is none for others. What a model declares of the values inside counts only where
    nothing can be inferred.
    """
    hashes = [full_hash(model).hex() for model in (before, after)]
    dropped = frozenset(lone_defaults(before, after))
    given = [without_inputs(model, dropped) for model in (before, after)]
    different = model_interface_difference(given[0], given[1])
    if different:
        results = [WindowResult("interface", (), (), Unproved(different, refuted=True), is_confirmed=True)]
    else:
        models = given if sized is None else [without_inputs(model, dropped) for model in sized]
        assumed = tuple(Assumption(f"what holds for {fact} holds for all sizes") for fact in facts)
        folded = map(_folded, models)
        results = _Search(Comparison(*folded), (models[0], models[1]), effort, allow, solver, assumed).run()
        if dropped:
            results.append(_defaults(dropped))
    return ModelCertificate(hashes[0], hashes[1], tuple(results), tuple(sorted(allow)), _versions(), facts)


def _folded(model: ir.Model) -> ir.Model:
    """Copy a model with the shapes that can be inferred, and with sizes folded that depend on these alone.

    What is declared of other values counts for windows, but no size is folded by it.
    """
    copied = copy_model(model)
    declared = {value: value.shape for node in copied.graph if node.domain in STANDARD for value in node.outputs}
    for value in declared:
        value.shape = None
    for _ in range(_INFERENCES):
        infer_symbolically(copied, KnownShapes(copied.graph))
        fold_sizes(copied)
        if all(static_shape(value) is not None for value in declared):
            break
    for value, shape in declared.items():
        if static_shape(value) is None:
            value.shape = shape
    return copied


@dataclass
class _Search:
    """Looks for windows that can be proved: behind pairs of values that turn out to differ they are made larger.

    Windows are cut out of models whose sizes are folded; what runs are the ``models`` themselves.
    """

    comparison: Comparison
    models: tuple[ir.Model, ir.Model]
    effort: Effort
    allow: Collection[str]
    solver: bool
    assumed: tuple[Assumption, ...] = ()
    known: dict[tuple[object, ...], WindowResult] = field(default_factory=dict[tuple[object, ...], WindowResult])
    grown: int = 0
    started: float = field(default_factory=time.process_time)

    def run(self) -> list[WindowResult]:
        """Prove all windows, or both models in whole; what is not proved may be refuted by running both."""
        drawn = [dict(draws) for draws in self.comparison.draws]
        if drawn[0] != drawn[1]:
            numbers = [sum(draws.values()) for draws in drawn]
            how = (
                f"{numbers[0]} times before, {numbers[1]} times after" if numbers[0] != numbers[1] else "in other ways"
            )
            return [WindowResult("random numbers", (), (), Unproved(f"the models draw random numbers {how}"))]
        results = self._windows()
        if any(isinstance(window.result, Unproved) for window in results):
            results = self._in_whole() or results
        results += self._unrounded()
        if self._loads_only_one():
            results.append(WindowResult("loading", (), (), Unproved("ONNX Runtime loads only one of the models")))
            return results
        return self._judged(results) if self.differs and not drawn[0] else results

    @functools.cached_property
    def differs(self) -> bool:
        """Return whether the models differ in more than names and the order of nodes."""
        first, second = map(structural_hash, self.models)
        return first != second

    def _unrounded(self) -> list[WindowResult]:
        """State that results of float16 are rounded, unless ONNX Runtime leaves out the same roundings in both."""
        if not self.differs or not any(map(leaves_halves_unrounded, self.models)):
            return []
        return [WindowResult("half precision", (), (), Proof("proved-here", "rounding", assumptions=(_ROUNDED,)))]

    def _loads_only_one(self) -> bool:
        """Return whether a model cannot be run while the other one can, as by nodes that no output depends on."""
        loaded = [Runner(model).is_loaded for model in self.models]
        return loaded[0] is not loaded[1]

    def _windows(self) -> list[WindowResult]:
        """Prove all windows; what had to be assumed and could not be proved is not assumed the next time.

        Each round covers both models, so that the best of them counts: windows that grow may end as one too large.
        """
        outputs = set(self.comparison.outputs())
        rounds: list[list[WindowResult]] = []
        for _ in range(_MOST_ROUNDS):
            results, failed, opened = self._round()
            rounds.append(results)
            fresh = failed - outputs - self.comparison.distrusted
            if not (fresh or opened) or self._spent > SECONDS[self.effort]:
                break
            self.comparison.distrusted |= fresh
        return min(reversed(rounds), key=_open_share)

    @property
    def _spent(self) -> float:
        return time.process_time() - self.started

    def _in_whole(self) -> list[WindowResult]:
        """Prove two small models at once, of which no window can be cut out."""
        models = self.comparison.before, self.comparison.after
        if max(len(model.graph) for model in models) > _MOST_NODES:
            return []
        proof = self._proved(*models)
        if not isinstance(proof, Proof):
            return []
        types = [tuple(node.op_type for node in model.graph) for model in models]
        names = ", ".join(str(value.name) for value in models[0].graph.outputs)
        return [WindowResult(names, types[0], types[1], proof)]

    def _judged(self, results: list[WindowResult]) -> list[WindowResult]:
        """Refute by ONNX Runtime what differs in whole models; what is only part of them may never take such values."""
        proofs = [window.result for window in results if isinstance(window.result, Proof)]
        are_bits = all(proof.keeps_bits for proof in proofs)
        used = frozenset(flag for proof in proofs for flag in proof.flags)
        allow = used.union(self.allow, () if are_bits else ROUNDING)
        if len(proofs) == len(results):
            if not are_bits:
                return self._run(results, allow)
            allow = frozenset[str]()
        runs = WholeRuns(*self.models, allow, self._rounded(results), _SECONDS_OF_RUNS)
        judged = [_tried(window, runs) for window in results]
        if any(window.is_confirmed for window in judged):
            return judged
        found = runs.search()
        if found is None:
            return judged
        return self._blamed(judged, found)

    def _run(self, results: list[WindowResult], allow: Collection[str]) -> list[WindowResult]:
        """Run both models where windows differ by rounding: what follows may amplify that, as quantizers do."""
        runs = WholeRuns(*self.models, allow, (), _SECONDS_OF_RUNS)
        tried = (runs.try_on(feeds) for feeds in drawn(self.models[0], _ORDINARY))
        found = next((each for each in tried if each is not None), None)
        if found is None:
            return results
        names = ", ".join(str(self.comparison.before.graph.outputs[place].name) for place in found.outputs)
        why = f"rounding is amplified: ONNX Runtime computes {told(found.feeds)}"
        return [*results, WindowResult(names, (), (), Unproved(why))]

    def _rounded(self, results: list[WindowResult]) -> set[int]:
        """List the outputs that other rounding reaches: what follows may amplify it, as quantizers do."""
        roots = [
            window.root
            for window in results
            if isinstance(window.result, Proof) and not window.result.keeps_bits and window.root is not None
        ]
        outputs = self.comparison.before.graph.outputs
        return {
            place
            for place, output in enumerate(outputs)
            if any(root is not output and self.comparison.depends(output, root) for root in roots)
        }

    def _blamed(self, results: list[WindowResult], found: Counterexample) -> list[WindowResult]:
        """Return which window differs, if only one can be the cause; else that the outputs do."""
        outputs = [self.comparison.before.graph.outputs[place] for place in found.outputs]
        suspects = [
            window
            for window in results
            if isinstance(window.result, Unproved)
            and window.root is not None
            and any(self.comparison.depends(output, window.root) for output in outputs)
        ]
        if len(suspects) == 1:
            return [_confirmed(window, found) if window is suspects[0] else window for window in results]
        names = ", ".join(str(output.name) for output in outputs)
        return [*results, _confirmed(WindowResult(names, (), (), Unproved("the outputs differ")), found)]

    def _round(self) -> tuple[list[WindowResult], set[Pair], bool]:
        """Prove all windows; returns those pairs that were assumed for windows that failed, and whether any grew."""
        pending = self.comparison.outputs()
        seen = set(pending)
        results: list[WindowResult] = []
        failed: set[Pair] = set()
        opened = False
        while pending:
            a, b = pending.pop()
            if self.comparison.are_same(a, b):
                continue
            more: Sequence[Pair] | None = self.comparison.inputs_of(a, b)
            if more is None:
                more = self._shown_operands(a, b)
            if more is None:
                found, part = self._window(a, b)
                more = () if part is None else part.assumed
                results.append(found)
                # What is too large does not get better by being larger.
                if isinstance(found.result, Unproved) and not found.result.reason.startswith(_TOO_LARGE):
                    failed |= set(more) or {(a, b)}
                    opened |= part is not None and self.grown < _MOST_OPENED and self.comparison.open(part)
            fresh = [pair for pair in more if pair not in seen]
            seen.update(fresh)
            pending.extend(fresh)
        self.grown += opened
        return sorted(results, key=lambda result: result.output), failed, opened

    def _shown_operands(self, a: ir.Value, b: ir.Value, depth: int = _MOST_DEPTH) -> list[Pair] | None:
        """Return the pairs of operands of a costly operator if they are proved to be the same; else None.

        What is made of equal operands is equal: there is no need to evaluate products of matrices for that.
        """
        node = a.producer()
        if node is None or not depth or traits_of(node).kind == "elementwise":
            return None
        pairs = self.comparison.operands_of(a, b)
        if not pairs or len(pairs) > _MOST_OPERANDS:
            return None
        for x, y in pairs:
            if static_shape(x) is None or static_shape(x) != static_shape(y) or x.dtype is not y.dtype:
                return None
            if self.comparison.inputs_of(x, y) is None and self._shown_operands(x, y, depth - 1) is None:
                found, _ = self._window(x, y)
                if not isinstance(found.result, Proof):
                    return None
        return pairs

    def _window(self, a: ir.Value, b: ir.Value) -> tuple[WindowResult, ChangedFragment | None]:
        """Prove one window; returns what it is made of as well."""
        name = a.name or b.name or ""
        try:
            part = self.comparison.window(a, b)
        except UnsupportedError as error:
            return WindowResult(name, (), (), Unproved(str(error)), root=a), None
        nodes = part.before.nodes, part.after.nodes
        key = (a, b, *nodes[0], *nodes[1], *part.assumed)
        if key not in self.known:
            fact = shrink_images(*part.models)
            is_late = self._spent > 2 * SECONDS[self.effort]
            result = _OUT_OF_TIME if is_late else self._proved(*part.models)
            if fact and isinstance(result, Proof):
                result = replace(result, facts=(*result.facts, fact))
            types = [tuple(node.op_type for node in each) for each in nodes]
            self.known[key] = WindowResult(name, types[0], types[1], _of_inputs(result, part), root=a)
        return self.known[key], part

    def _proved(self, before: ir.Model, after: ir.Model) -> Proof | Unproved:
        result = prove_equal(before, after, effort=self.effort, allow=self.allow, solver=self.solver)
        if isinstance(result, Proof):
            return replace(result, assumptions=(*result.assumptions, *self.assumed))
        return result


def _open_share(results: Sequence[WindowResult]) -> float:
    """Return which part of the windows is not decided."""
    return sum(isinstance(each.result, Unproved) for each in results) / max(len(results), 1)


def _defaults(names: Collection[str]) -> WindowResult:
    """State that callers of one model can override what is constant in the other one."""
    shown = ", ".join(f"'{name}'" for name in sorted(names)[:3]) + (" …" if len(names) > 3 else "")
    assumed = Assumption(f"nobody overrides the defaults of {count(names, 'input')} ({shown})")
    return WindowResult("interface", (), (), Proof("proved-here", "the same defaults", assumptions=(assumed,)))


def _of_inputs(result: Proof | Unproved, part: ChangedFragment) -> Proof | Unproved:
    """Name the example that refutes a window by the inputs of the models, if these are what it is made of."""
    if isinstance(result, Proof) or not result.example:
        return result
    pairs = zip(part.models[0].graph.inputs, part.variables, strict=True)
    names = {made.name: value.name for made, (_, value) in pairs if value.is_graph_input()}
    if not set(result.example) <= set(names):
        return replace(result, example=None)
    return replace(result, example={names[name]: array for name, array in result.example.items()})


def _tried(window: WindowResult, runs: WholeRuns) -> WindowResult:
    """Run both models on the example that refutes a window; without a difference nothing is refuted."""
    result = window.result
    if isinstance(result, Proof) or not result.refuted:
        return window
    found = runs.try_on(result.example or {})
    if found is not None:
        return _confirmed(window, found)
    reason = f"not confirmed by ONNX Runtime on the whole models: {result.reason}"
    return replace(window, result=Unproved(reason, flags=result.flags))


def _confirmed(window: WindowResult, found: Counterexample) -> WindowResult:
    assert isinstance(window.result, Unproved)
    reason = f"ONNX Runtime computes {told(found.feeds)}"
    result = Unproved(reason, refuted=True, flags=window.result.flags, example=found.feeds)
    return replace(window, result=result, is_confirmed=True)


def checked(data: Any) -> dict[str, Any]:
    """Return a certificate that was read, if it has the form of one. Raises UsageError."""
    certificate = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    windows = certificate.get("windows")
    allow = certificate.get("allow")
    is_whole = (
        certificate.get("format") == FORMAT
        and all(isinstance(certificate.get(key), str) for key in ("before", "after"))
        and isinstance(allow, list)
        and all(isinstance(flag, str) for flag in cast("list[object]", allow))
        and isinstance(windows, list)
        and all(
            isinstance(window, dict) and {"output", "level"} <= window.keys() for window in cast("list[Any]", windows)
        )
    )
    if not is_whole:
        hint = "make one with 'onnx-passes certify A B --json FILE'"
        raise UsageError("the file is not a certificate of two models", hint=hint)
    return certificate


def differences(old: Mapping[str, Any], new: ModelCertificate) -> list[str]:
    """Say in what a certificate that was read differs from one that was just made."""
    old = checked(old)
    made = new.to_json()
    found = [f"the model {side} is another one" for side in ("before", "after") if old.get(side) != made[side]]
    if found:
        return found
    whole = [key for key in ("level", "facts") if old.get(key) != made[key]]
    found += [f"'{key}' was {old.get(key)!r}, and is {made[key]!r}" for key in whole]
    told, again = (
        [{key: part for key, part in window.items() if key not in _NOT_COMPARED} for window in windows]
        for windows in (old["windows"], json.loads(json.dumps(made["windows"])))
    )
    for window, other in zip(told, again, strict=False):
        if window != other:
            keys = [key for key in {**window, **other} if window.get(key) != other.get(key)]
            parts = ", ".join(f"{key} was {window.get(key)!r} and is {other.get(key)!r}" for key in keys)
            found.append(f"'{window['output']}': {parts}")
    if len(told) != len(again):
        found.append(f"{len(told)} windows were there, and are {len(again)}")
    return found


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _listed(example: Mapping[str, Any]) -> dict[str, Any]:
    return {name: [str(number) for number in array.reshape(-1)[:64]] for name, array in example.items()}
