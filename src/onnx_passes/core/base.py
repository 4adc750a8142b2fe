"""Base classes of passes: small, typed, and independent of how passes are run."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, dataclass_transform

import onnx_ir as ir

from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.naming import kebab
from onnx_passes.core.options import format_options
from onnx_passes.core.records import Application, RuleRecord, StepRecord

if TYPE_CHECKING:
    from onnx_passes.core.claims import Claim

PassResult = ir.passes.PassResult
Kind = Literal["analysis", "annotation", "transformation", "sequence"]
FastMath = Literal["nnan", "ninf", "nsz", "reassoc", "contract"]
ALL = ("*",)


@dataclass
class AnalysisResult(PassResult):
    """Result of an analysis: the unchanged model and the finding."""

    value: Any = None


def _no_veto(application: Application) -> str | None:
    return None


def _ignore(application: Application) -> None:
    return None


@dataclass(frozen=True, eq=False)
class Refused:
    """Refusal of a rewrite at a node, with the reason, and the value or node that it is about."""

    rule: str
    node: ir.Node | None
    reason: str
    at: ir.Value | ir.Node | None = None


@dataclass
class Context:
    """State of a run that the manager passes to a pass.

    Refusals of rewrites are appended to ``refusals`` if that is a list; otherwise they are only counted. Rules that are
    ``skipped``, by their folded names, are not applied. ``memory`` is what passes of one run store for later ones. With
    a ``shuffle_seed`` rules visit nodes in a random order. A pass that ``runs_again`` after it changed something need
    not reach its own fixpoint.
    """

    record: StepRecord = field(default_factory=lambda: StepRecord(1, "", "", ""))
    next_number: Callable[[], int] = lambda: 1
    before_rewrite: Callable[[Application], str | None] = _no_veto
    after_rewrite: Callable[[Application], None] = _ignore
    run_children: Callable[[ir.Model], PassResult] | None = None
    refusals: list[Refused] | None = None
    skipped: frozenset[str] = frozenset()
    runs_again: bool = False
    memory: dict[type, Any] = field(default_factory=dict[type, Any])
    shuffle_seed: int | None = None

    def report_rules(self, rules: list[RuleRecord]) -> None:
        """Add the statistics of a rule set to the record of this step."""
        self.record.rules.extend(rules)

    def note(self, text: str) -> None:
        """Add a note for the user."""
        self.record.notes.append(text)


# Type checkers only accept a default as keyword of a field specifier: without one, any value is a default.
@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
class Pass(ir.passes.PassBase):
    """A step on a model; options are annotated fields of the class, as in a dataclass.

    ``needs`` names passes that must run before this one, ``followed_by`` passes to run after it changed the model,
    ``preserves`` the results of earlier passes that stay valid (``("*",)`` for all of them). ``fast_math`` lists
    exceptions to the claim of a pass, as in LLVM: NaN (``nnan``), infinities (``ninf``), the sign of zeros (``nsz``);
    and differences of rounding: regrouping (``reassoc``), fusing (``contract``). ``lowers`` names the operators that it
    writes in terms of others. ``takes_body`` is set for passes with nested passes, as ``fixpoint(a, b)``.
    """

    kind: ClassVar[Kind] = "transformation"
    text_name: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    followed_by: ClassVar[tuple[str, ...]] = ()
    preserves: ClassVar[tuple[str, ...]] = ()
    claims: ClassVar[tuple[Claim, ...]] = ()
    fast_math: ClassVar[tuple[FastMath, ...]] = ()
    lowers: ClassVar[tuple[str, ...]] = ()
    takes_body: ClassVar[bool] = False
    writes_init: ClassVar[bool] = False
    skipped_rules: ClassVar[frozenset[str]] = frozenset()
    """Rules that a pipeline skips, by folded names."""
    shuffle_seed: ClassVar[int | None] = None
    """Seed of a random order of nodes, if a pipeline asks for one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, annotation in inspect.get_annotations(cls).items():
            if "ClassVar" in str(annotation):
                continue
            if name in ("kind", "needs", "followed_by", "preserves", "claims", "fast_math", "lowers"):
                raise RegistrationError(
                    f"'{name}' of pass '{cls.__name__}' is a declaration, not an option",
                    hint=f"write '{name} = (…)' without an annotation",
                )
            if hasattr(Pass, name):
                raise RegistrationError(
                    f"option '{name}' of pass '{cls.__name__}' hides an attribute of all passes",
                    hint="choose another name for the option",
                )
        for name in (
            "needs",
            "followed_by",
            "preserves",
            "fast_math",
            "lowers",
            *(("passes",) if cls.kind == "sequence" else ()),
        ):
            if isinstance(getattr(cls, name), str):
                raise RegistrationError(
                    f"'{name}' of pass '{cls.__name__}' is a text, not a tuple of names",
                    hint=f"write '{name} = (\"{getattr(cls, name)}\",)'",
                )
        documentation = cls.__dict__.get("__doc__")
        if "__init__" in cls.__dict__:
            cls.writes_init = True
        dataclass(init=not cls.writes_init, kw_only=True, eq=False, repr=False)(cls)
        cls.__doc__ = documentation

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Return the names of the methods that a class of this kind must define, but does not."""
        return ("call",) if "call" in getattr(cls, "__abstractmethods__", ()) else ()

    @classmethod
    def announces(cls) -> bool:
        """Return whether all changes are rewrites that instruments see; a pass with ``call`` only has none."""
        return cls.kind == "transformation" and cls.run is not Pass.run

    @property
    def in_place(self) -> bool:
        """Return True: the pass returns the model that it was given. For onnx_ir."""
        return True

    @property
    def changes_input(self) -> bool:
        """Return True: the pass may change the model that it was given. For onnx_ir."""
        return True

    @property
    def name(self) -> str:
        """Return the name in pipeline text."""
        return type(self).__dict__.get("text_name") or kebab(type(self).__name__)

    def __str__(self) -> str:
        return self.name + format_options(self)

    __repr__ = __str__

    def __call__(self, model_or_result: ir.Model | PassResult, /) -> PassResult:
        """Run alone, with pre- and post-conditions, and verified on generated inputs."""
        from onnx_passes.core.standalone import run_alone

        return run_alone(self, model_or_result, super().__call__)

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Run inside a manager; override ``call`` unless the pass reports rewrites or runs other passes."""
        return self.call(model)


class Analysis(Pass):
    """Pass that reads the model and never changes it: implement ``analyze``."""

    kind = "analysis"
    preserves = ALL

    @property
    def changes_input(self) -> bool:
        """Return False: the model is not changed. For onnx_ir."""
        return False

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Return ``analyze``, unless the class defines it, or overrides all of its callers."""
        unchanged = (cls.analyze, cls.call, cls.run) == (Analysis.analyze, Analysis.call, Analysis.run)
        return ("analyze",) if unchanged else ()

    def analyze(self, model: ir.Model) -> Any:
        """Return the finding: plain data, or an object with ``to_json``."""
        raise NotImplementedError(f"analysis '{self.name}' has no analyze method")

    def call(self, model: ir.Model) -> AnalysisResult:
        """Wrap the finding in a result."""
        return AnalysisResult(model, modified=False, value=self.analyze(model))


class Annotation(Pass):
    """A pass that changes types, shapes and metadata, never the structure and never a value."""

    kind = "annotation"
    preserves = ALL


class Transformation(Pass):
    """A pass that may change everything."""

    kind = "transformation"
