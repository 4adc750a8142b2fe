"""Options by pass name, from the configuration and ``apply(options=…)``: an unused option is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from onnx_passes.core.errors import OnnxPassesError, OptionError, did_you_mean
from onnx_passes.core.members import has_open_names, members_of, spelt_options, split, unknown_option
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.registry import REGISTRY, Registry, Resolved

Defaults = Mapping[str, Mapping[str, object]]
WHERE = "options"
"""Location of errors if no file is known."""


def resolve_names(given: Defaults, registry: Registry = REGISTRY) -> dict[str, dict[str, object]]:
    """Return the options by the canonical names of their passes; unknown names are errors.

    Options of members may be nested: ``{"streamline": {"infer-thresholds": {"max-bits": 3}}}``.
    """
    resolved: dict[str, dict[str, object]] = {}
    for name, options in given.items():
        try:
            found = registry.find(name)
            if has_open_names(name, registry):
                plain = dict(options)
            else:
                known = [option.name for entry in found.entries for option in entry.options]
                plain = spelt_options(name, _flat(options, known), registry)
                _refuse_unknown(found, plain, registry)
        except OnnxPassesError as error:
            error.where = error.where or WHERE
            raise
        resolved.setdefault(found.name if found.is_group else found.entries[0].name, {}).update(plain)
    return resolved


def _flat(options: Mapping[str, object], known: Sequence[str], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in options.items():
        if isinstance(value, Mapping) and kebab(name) not in known:
            yield from _flat(cast(Mapping[str, object], value), (), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def refuse_unused(given: Defaults, used: Collection[str]) -> None:
    """Refuse options of a pass that is not in use; ``used`` has folded names."""
    for name, options in given.items():
        if options and fold(name) not in used:
            raise OptionError(
                f"no pass takes the options of '{name}': it is not in the pipeline, or was given as an object",
                where=WHERE,
                hint="leave them out, or run the pass by its name",
            )


def _refuse_unknown(found: Resolved, options: Mapping[str, object], registry: Registry) -> None:
    if found.is_group:
        return
    (entry,) = found.entries
    known = [option.name for option in entry.options]
    for option, value in split(options)[0].items():
        if option not in known:
            raise unknown_option(entry.name, option, value, members_of(found, registry)) or OptionError(
                f"pass '{entry.name}' has no option '{option}'",
                hint=did_you_mean(option, known) or f"options of '{entry.name}': {', '.join(known) or 'it has none'}",
            )
