"""Certificates: what they say, how they are written, and when they count."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_passes.core.build import collect
from onnx_passes.proofs import rule_certificate as room
from onnx_passes.proofs.rule_certificate import (
    EDITED,
    REALS,
    Domain,
    PassCertificates,
    RuleCertificate,
    certificate_of,
)
from onnx_passes.proofs.sources import modules_of, numbered, sources_of

DOMAIN = Domain(("float", "int8"), (0, 1, 2, 4), (0, 1, 2, 3), ("one",), (18, 20, 21))
PROVED = RuleCertificate("Twice", "Neg(Neg(x)) → x", "0123", "labelled run", 12, DOMAIN, ("nsz",))
LACKING = RuleCertificate("Other", "Abs(x) → x", "4567", missing="a lemma")


def test_written_and_read_back() -> None:
    held = PassCertificates("some-pass", "z3 5.4.0", {"b": "1", "a": "2"}, {"Twice": PROVED, "Other": LACKING})
    text = held.to_text()
    assert PassCertificates.from_text("some-pass", text) == held
    assert text == PassCertificates.from_text("some-pass", text).to_text()
    assert '   "ranks": [0, 1, 2, 4],\n' in text


def test_what_it_proves() -> None:
    proof = PROVED.proof()
    assert proof is not None
    assert (PROVED.level, proof.level, proof.method) == ("proved", "proved", "labelled run")
    assert proof.facts == (
        "Twice: certificate 0123",
        "domain: float, int8; ranks 0–2, 4; sizes 0–3; constants one; opsets 18, 20, 21",
        "flags: nsz",
    )
    real = replace(PROVED, method=f"{REALS}, finite field").proof()
    assert real is not None
    assert real.level == "equal-in-reals"
    assert LACKING.proof() is None
    assert LACKING.level == "unproved"


def test_domain() -> None:
    assert DOMAIN.covers({"int8"}, {0, 2}, 19)
    assert not DOMAIN.covers({"int16"}, {0, 2}, 19)
    assert not DOMAIN.covers({"int8"}, {3}, 19)
    assert not DOMAIN.covers({"int8"}, {0}, 22)


def test_rules_of_one_name_are_numbered() -> None:
    assert numbered(["A", "B", "A", "A"]) == ["A", "B", "A#2", "A#3"]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "FOLDER", tmp_path)

    def write(pass_name: str, modules: dict[str, str], **rules: RuleCertificate) -> None:
        named = {name.replace("__", "#"): each for name, each in rules.items()}
        (tmp_path / f"{pass_name}.json").write_text(PassCertificates(pass_name, "z3", modules, named).to_text())
        room.certificates_of.cache_clear()
        room._current.cache_clear()

    yield write
    room.certificates_of.cache_clear()
    room._current.cache_clear()


@pytest.mark.parametrize("name", ["eliminate-double-transpose", "move-concat-up"])
def test_certificate_of_other_source_is_none(write, name: str) -> None:
    [pass_] = collect("eliminate-transpose" if name.startswith("eliminate") else name)
    rule = pass_.compile().rules[0].name
    source = sources_of(pass_, [rule])[rule]
    write(pass_.name, {}, **{rule: replace(PROVED, rule=rule, source=source)})
    assert certificate_of(pass_, rule) is not None, "the source of the rule is the same"
    write(pass_.name, {"onnx_passes.passes.util": "changed"}, **{rule: replace(PROVED, rule=rule, source=source)})
    assert certificate_of(pass_, rule) is not None, "another file, but the source of the rule is the same"
    write(pass_.name, {"onnx_passes.passes.util": "changed"}, **{rule: replace(PROVED, rule=rule, source="old")})
    assert certificate_of(pass_, rule) is None
    write(pass_.name, modules_of(pass_, [rule]), **{rule: replace(PROVED, rule=rule, source=source)})
    assert certificate_of(pass_, rule) == replace(PROVED, rule=rule, source=source)
    assert certificate_of(pass_, "Unheard") is None


def test_rules_of_one_name_must_all_be_proved(write) -> None:
    [pass_] = collect("eliminate-transpose")
    write(pass_.name, modules_of(pass_, ["A"]), A=PROVED, A__2=PROVED, B=PROVED, B__2=LACKING)
    assert certificate_of(pass_, "A") == replace(PROVED, rule="A")
    assert certificate_of(pass_, "B") is None


def test_other_options_are_other_rules(write) -> None:
    [pass_] = collect("lower-conv")
    [other] = collect("lower-conv{im2col=true}")
    write(pass_.name, modules_of(pass_, ["Conv"]), Conv=replace(PROVED, rule="Conv"))
    assert certificate_of(pass_, "Conv") == replace(PROVED, rule="Conv")
    assert certificate_of(other, "Conv") is None


def test_a_further_law_of_a_name_is_not_covered(write, monkeypatch: pytest.MonkeyPatch) -> None:
    [pass_] = collect("absorb-not")
    law = pass_.laws[0]
    sources = sources_of(pass_, [law.rule_name])
    certificate = replace(PROVED, rule=law.rule_name, source=sources[law.rule_name])
    monkeypatch.setattr(type(pass_), "laws", (law,))
    write(pass_.name, {}, **{law.rule_name: certificate})
    assert certificate_of(pass_, law.rule_name) == certificate
    monkeypatch.setattr(type(pass_), "laws", (law, replace(law, commute=not law.commute)))
    write(pass_.name, {}, **{law.rule_name: certificate})
    assert certificate_of(pass_, law.rule_name) is None, "an application may be one of the other law"


def test_one_stale_certificate_of_a_name_voids_them_all(write, monkeypatch: pytest.MonkeyPatch) -> None:
    [pass_] = collect("absorb-not")
    law = pass_.laws[0]
    monkeypatch.setattr(type(pass_), "laws", (law, replace(law, commute=not law.commute)))
    name = law.rule_name
    sources = sources_of(pass_, [name, f"{name}#2"])
    held = {each: replace(PROVED, rule=each, source=source) for each, source in sources.items()}
    write(pass_.name, {}, **held)
    assert certificate_of(pass_, name) is not None
    write(pass_.name, {}, **{name: held[name], f"{name}#2": replace(held[f"{name}#2"], source="old")})
    assert certificate_of(pass_, name) is None


EDITS = (
    ('"Neg(Neg(x)) → x"', '"Neg(x) → x"'),
    ('"float", ', '"float", "float16", '),
    ('"labelled run"', '"congruence"'),
    ('"missing": "a lemma"', '"method": "congruence"'),
    ('"0123"', '"4567"'),
    ('"instances": 12', '"instances": 13'),
    ('"a": "2"', '"a": "3"'),
    ('"seal": "', '"seal": "0'),
)


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_a_file_that_was_edited_is_refused(old: str, new: str) -> None:
    text = PassCertificates("some-pass", "z3", {"b": "1", "a": "2"}, {"Twice": PROVED, "Other": LACKING}).to_text()
    assert text.count(old) == 1
    held = PassCertificates.from_text("some-pass", text.replace(old, new))
    for certificate in held.rules.values():
        assert certificate.level == "edited"
        assert certificate.proof() is None
        assert certificate.lacks == EDITED
    other = PassCertificates.from_text("other-pass", text)
    assert {each.level for each in other.rules.values()} == {"edited"}, "the file of another pass"
    plain = json.dumps(json.loads(text))
    assert not any(each.void for each in PassCertificates.from_text("some-pass", plain).rules.values())


def test_runs_refuse_a_file_that_was_edited(write, tmp_path: Path) -> None:
    [pass_] = collect("eliminate-transpose")
    rule = pass_.compile().rules[0].name
    held = replace(PROVED, rule=rule, source=sources_of(pass_, [rule])[rule])
    write(pass_.name, modules_of(pass_, [rule]), **{rule: held})
    assert certificate_of(pass_, rule) == held
    path = tmp_path / f"{pass_.name}.json"
    path.write_text(path.read_text().replace('"opsets": [18, 20, 21]', '"opsets": [1, 18, 20, 21]'))
    room.certificates_of.cache_clear()
    room._current.cache_clear()
    assert certificate_of(pass_, rule) is None


def test_certificates_are_found_in_a_checkout() -> None:
    assert Path(__file__).parents[2] / "certificates" == room.FOLDER
    assert len(room.certified_passes()) > 100


def test_a_class_that_only_claims_to_be_that_of_a_module_has_no_certificate(write) -> None:
    [pass_] = collect("eliminate-transpose")
    certified = type(pass_)
    forged = type(certified.__name__, (certified,), {"name": pass_.name, "__module__": certified.__module__})
    write(pass_.name, modules_of(pass_, ["A"]), A=PROVED)
    assert certificate_of(pass_, "A") is not None
    assert forged().name == pass_.name
    assert certificate_of(forged(), "A") is None, "its rules may be any, though the file has not changed"


def test_a_file_that_is_sealed_anew_still_names_the_source_that_it_is_about(write) -> None:
    # The seal is no secret: whoever can write certificates of the package can write the package. What no seal can do
    # is to let a certificate count for another rule, options or definitions than those that it was made of.
    [pass_] = collect("eliminate-transpose")
    rule = pass_.compile().rules[0].name
    write(pass_.name, {}, **{rule: replace(PROVED, rule=rule, source="forged")})
    assert certificate_of(pass_, rule) is None
    write(pass_.name, {"onnx_passes.passes.util": "forged"}, **{rule: replace(PROVED, rule=rule, source="forged")})
    assert certificate_of(pass_, rule) is None


def test_what_a_certificate_lacks_is_why_it_is_none(write) -> None:
    assert LACKING.lacks == "a lemma"
    assert PROVED.lacks == ""
    assert replace(PROVED, void=EDITED).lacks == replace(LACKING, void=EDITED).lacks == EDITED
    assert PROVED.is_proved
    assert not LACKING.is_proved
    assert not replace(PROVED, void=EDITED).is_proved
    assert replace(PROVED, void=EDITED).proof() is None
    assert room.certificates_of("a-pass-without-certificates") is None
