"""Conversion of configuration files of version 0.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

_BYTES_PER_ELEMENT = 4
_MODULES = "onnx_passes.passes."


def _bytes(elements: Any) -> Any:
    """Convert a number of float32 elements to bytes."""
    return _BYTES_PER_ELEMENT * elements if isinstance(elements, int) else elements


def _bits(thresholds: Any) -> Any:
    """Convert a number of thresholds to the widest quantizer that needs no more."""
    return (thresholds + 1).bit_length() - 1 if isinstance(thresholds, int) and thresholds >= 0 else thresholds


Section = dict[str, Any]
Option = tuple[str, Callable[[Any], Any]] | None
"""The current name and value of an option; None if it has no effect any more."""

_OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "deduplicate_initializers": {"size_limit": ("max_size", _bytes)},
    "fold_constants": {
        "input_size_limit": ("max_input", _bytes),
        "output_size_limit": ("max_size", _bytes),
        "onnx_shape_inference": None,
    },
    "infer_thresholds": {"max": ("max_bits", _bits)},
    "model_checker": {"skip_opset_compatibility_check": None, "check_custom_domain": None},
}
_WITHOUT_EFFECT = ("lift_constants",)


class Notes(list[str]):
    """Records the found forms of 0.4, and their replacements."""

    def add(self, key: str, instead: str) -> None:
        """Record a form, once."""
        note = f"{key} has the form of version 0.4; {instead}"
        if note not in self:
            self.append(note)


def modern(data: object) -> tuple[object, Notes]:
    """Return plain data, as YAML gives it, in the current form, and notes on older forms.

    Data in neither form are unchanged: the reader of the configuration reports errors.
    """
    notes = Notes()
    if not isinstance(data, Mapping):
        return data, notes
    found: Section = dict(cast("Mapping[str, Any]", data))
    _leave_out_own_modules(found, notes)
    for key, value in found.items():
        if isinstance(value, Mapping):
            section: Section = dict(cast("Mapping[str, Any]", value))
            found[key] = section
            if key in _TRANSLATIONS:
                _TRANSLATIONS[key](section, notes)
            if key in _OPTIONS:
                _rename_options(key, section, notes)
    for key in _WITHOUT_EFFECT:
        if key in found:
            notes.add(f"the section {key}", "it has no effect any more")
            del found[key]
    return found, notes


def _leave_out_own_modules(found: Section, notes: Notes) -> None:
    """Drop imports of modules of the collection, which needs none."""
    names = _items(found.get("imports"))
    others = [name for name in names if not str(name).startswith(_MODULES)]
    if len(others) < len(names):
        notes.add("imports", "passes of the collection need no import")
        found["imports"] = others


def _reference(section: Section, notes: Notes) -> None:
    """Remove empty lists of files: generated data are the default."""
    for key in ("inp", "out"):
        if None in _items(section.get(key)):
            section[key] = [name for name in _items(section[key]) if name is not None]


def _onnxruntime(section: Section, notes: Notes) -> None:
    """Split pairs of a provider and its options."""
    given = _items(section.get("providers"))
    pairs: list[list[Any]] = [[item, None] if isinstance(item, str) else _items(item) for item in given]
    if all(isinstance(item, str) for item in given) or not all(len(pair) == 2 for pair in pairs):
        return
    notes.add("onnxruntime.providers", "names go to providers, options to provider_options")
    section["providers"] = [name for name, _ in pairs]
    if any(options for _, options in pairs):
        section.setdefault("provider_options", [options or {} for _, options in pairs])


def _layouts(section: Section, notes: Notes) -> None:
    """Join letters, and keep the interface: 0.4 inserts converters after inputs and before outputs."""
    for side in ("inp", "out"):
        entries = [_with_letters_joined(entry) for entry in _items(section.get(side))]
        if entries and entries != _items(section[side]):
            notes.add("layouts", "write assumes: NCHW and, next to inp and out, keep_interface: true")
            section[side] = entries
            section.setdefault("keep_interface", True)


def _with_letters_joined(entry: object) -> object:
    if not isinstance(entry, Mapping):
        return entry
    known = dict(cast("Mapping[str, Any]", entry))
    letters = _items(known.get("assumes"))
    return {**known, "assumes": "".join(map(str, letters))} if letters else known


def _logging(section: Section, notes: Notes) -> None:
    """Remove disabled logging."""
    for key in ("checkpoint", "keep_intermediates"):
        if section.get(key) is False:
            notes.add(f"logging.{key}: false", "leave it out")
            del section[key]


_TRANSLATIONS: Mapping[str, Callable[[Section, Notes], None]] = {
    "reference": _reference,
    "onnxruntime": _onnxruntime,
    "layouts": _layouts,
    "logging": _logging,
}


def _rename_options(name: str, section: Section, notes: Notes) -> None:
    """Rename options to their current names, and remove those without effect."""
    for key in [key for key in section if key in _OPTIONS[name]]:
        value, option = section.pop(key), _OPTIONS[name][key]
        if option is None:
            notes.add(f"{name}.{key}", "it has no effect any more")
        else:
            new, convert = option
            section.setdefault(new, convert(value))
            notes.add(f"{name}.{key}", f"write {new}: {convert(value)}")


def _items(value: object) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []
