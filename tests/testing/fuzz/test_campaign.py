"""Campaigns: whoever does the work finds the same, once each, and what was done is not done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.registry import REGISTRY
from onnx_passes.testing.fuzz import Effort, Finding, FuzzReport, Kind
from onnx_passes.testing.fuzz.campaign import Campaign, JournalEntry, Noted
from onnx_passes.testing.fuzz.structure import structure_of
from onnx_passes.testing.fuzz.targets import targets_of
from onnx_passes.testing.fuzz.tasks import CampaignPlan, Found, Task, Tried, Workshop
from onnx_passes.workers.cluster import local_cluster

PLANTED = str(Path(__file__).with_name("planted_rules.py"))
PLAN = CampaignPlan(("planted",), (PLANTED,), 8, Effort(first_scouts=3, matches=3, most_scouts=6, shrink_cases=8))
ROOT = Path(__file__).parents[3]


@pytest.fixture
def planted() -> Iterator[None]:
    import_user_modules([PLANTED])
    yield
    sys.modules.pop("planted_rules")
    for key, entry in list(REGISTRY._entries.items()):
        if entry.module == "planted_rules":
            del REGISTRY._entries[key]
            REGISTRY._classes.pop(entry.name, None)


@pytest.fixture
def faked(planted: None, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Let tasks be done in no time, with findings whose size and structure follow from the seed."""
    done: list[tuple[str, int]] = []

    def do(self: Workshop, task: Task) -> Tried:
        done.append((task.rule, task.seed))
        report = FuzzReport(task.rule, 8, 8)
        if task.rule != "planted-loss":
            return Tried(report)
        found = Found(Finding(Kind.WRONG, f"from seed {task.seed}", "text", rule=task.rule), "0abc", 90 - task.seed)
        return Tried(report, (found,))

    monkeypatch.setattr(Workshop, "do", do)
    return done


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".jsonl"}


def test_two_processes_find_what_one_does(planted: None, tmp_path: Path) -> None:
    alone, together = Campaign(PLAN, tmp_path / "one"), Campaign(PLAN, tmp_path / "two")
    told = [finding.rule for finding in alone.run(range(2))]
    with local_cluster(2, preload=["onnx_passes.testing.fuzz.tasks"]) as cluster:
        again = [finding.rule for finding in together.run(range(2), cluster=cluster)]
    assert {met.rule for met in alone.findings()} == {"planted-loss", "planted-subtraction"}
    assert alone.findings() == together.findings()
    assert sorted(told) == sorted(again) == [met.rule for met in alone.findings()]
    assert kept(tmp_path / "one") == kept(tmp_path / "two")
    for met in alone.findings():
        text = Path(alone.file_of(met)).read_text(encoding="utf-8")
        assert text.startswith(f"# onnx-passes fuzz --import {PLANTED} --cases 8 --seed {met.seed} {met.rule}\n")
        assert ir.from_onnx_text(text).graph.num_nodes() >= 1
    assert alone.dead == []
    assert not alone.ok


def test_duplicates_are_one_with_the_smallest_model(faked: list[tuple[str, int]], tmp_path: Path) -> None:
    campaign = Campaign(PLAN, tmp_path)
    assert [finding.message for finding in campaign.run(range(3))] == ["from seed 0"]
    [met] = campaign.findings()
    assert (met.count, met.first_seed, met.seed, met.noted.size) == (3, 0, 2, 88)
    assert [path.name for path in tmp_path.glob("*.onnxtxt")] == ["planted-loss-WRONG-0abc.onnxtxt"]
    assert "from seed 2" in Path(campaign.file_of(met)).read_text(encoding="utf-8")


def test_rules_are_tried_in_turn(faked: list[tuple[str, int]]) -> None:
    campaign = Campaign(PLAN)
    list(campaign.run(range(5, 7)))
    assert [seed for _, seed in faked] == [5, 5, 5, 6, 6, 6]
    assert [rule for rule, _ in faked[:3]] == [rule for rule, _ in faked[3:]] == campaign.rules


def test_every_pass_has_its_turn_before_one_has_its_second() -> None:
    rules = Campaign(CampaignPlan(("eliminate-slice", "eliminate-concat"))).rules
    families = [rule.partition("/")[0] for rule in rules]
    assert families == ["eliminate-slice", "eliminate-concat", "eliminate-slice"]


def test_campaign_goes_on_where_it_ended(faked: list[tuple[str, int]], tmp_path: Path) -> None:
    first = Campaign(PLAN, tmp_path).run(range(3))
    next(first)
    first.close()
    begun = len(faked)
    # A kill in the middle of a line costs that line only.
    journal = tmp_path / "campaign.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines) + lines[-1][:40])
    second = Campaign(PLAN, tmp_path)
    assert second.resumed == begun == len(lines)
    list(second.run(range(3)))
    assert len(faked) == len(set(faked)) == 9
    third = Campaign(PLAN, tmp_path)
    assert third.findings() == second.findings()
    assert (third.resumed, list(third.run(range(3)))) == (9, [])
    assert len(faked) == 9


def test_other_versions_begin_anew(faked: list[tuple[str, int]], tmp_path: Path) -> None:
    list(Campaign(PLAN, tmp_path).run(range(1)))
    other = Campaign(CampaignPlan(PLAN.rules, PLAN.imports, 9, PLAN.effort), tmp_path)
    assert (other.resumed, other.findings()) == (0, [])


def test_no_task_begins_after_its_time(faked: list[tuple[str, int]]) -> None:
    list(Campaign(PLAN).run(iter(range(10**12)), seconds=0.05))
    assert 0 < len(faked) < 10**6


def test_what_cannot_be_tried_is_told(planted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no shapes")

    monkeypatch.setattr("onnx_passes.testing.fuzz.trial.Trial.run", fail)
    campaign = Campaign(PLAN)
    assert list(campaign.run(range(1))) == []
    assert campaign.failures["planted-loss from seed 0"] == "ZeroDivisionError: no shapes"
    assert not campaign.ok


def test_merging_does_not_depend_on_the_order() -> None:
    from onnx_passes.testing.fuzz.campaign import Met

    mets = [Met("r", Noted("WRONG", "0", size, ""), seed, seed) for seed, size in enumerate((70, 60, 60))]
    orders = [(0, 1, 2), (2, 1, 0), (1, 2, 0)]
    merged = {mets[a].with_(mets[b]).with_(mets[c]) for a, b, c in orders}
    assert merged == {Met("r", Noted("WRONG", "0", 60, ""), 1, 0, 3)}


def test_entry_is_what_the_report_says() -> None:
    entry = JournalEntry.of(Tried(FuzzReport("r", 5, 4, 3, seconds=1.23456)), 7)
    assert entry == JournalEntry("r", 7, 5, 4, 3, 1.235)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("(float[2] x) => (float[2] y) { y = Relu (x) }", "(float[3] a) => (float[3] b) { b = Relu (a) }", True),
        (
            "(float x) => (float y) <float c = {1}> { y = Mul (x, c) }",
            "(float x) => (float y) <float k = {2}> { y = Mul (x, k) }",
            True,
        ),
        ("(float[2] x) => (float[2] y) { y = Relu (x) }", "(double[2] x) => (double[2] y) { y = Relu (x) }", False),
        ("(float[2] x) => (float[2] y) { y = Relu (x) }", "(float[2] x) => (float[2] y) { y = Abs (x) }", False),
        (
            "(float[2, 2] x) => (float[2, 2] y) { y = Softmax <axis = 0> (x) }",
            "(float[2, 2] x) => (float[2, 2] y) { y = Softmax <axis = 1> (x) }",
            False,
        ),
        (
            "(float x, float z) => (float y) { y = Sub (x, z) }",
            "(float x, float z) => (float y) { y = Sub (x, x) }",
            False,
        ),
    ],
)
def test_structure_is_operators_attributes_and_types(one: str, other: str, same: bool) -> None:
    models = (ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 20]> g {text}') for text in (one, other))
    a, b = (structure_of(ir.to_proto(model).SerializeToString()) for model in models)
    assert (a == b) == same


def test_one_rule_by_its_name() -> None:
    [target] = targets_of("eliminate-slice/SliceOfSlice")
    assert target.name == "eliminate-slice/SliceOfSlice"
    with pytest.raises(UsageError, match=r"no rule 'eliminate-slice/SliceOfSlices'.*did you mean"):
        targets_of("eliminate-slice/SliceOfSlices")


def test_rules_that_share_a_name_are_all_tried() -> None:
    [found] = [
        name
        for name in Campaign(CampaignPlan(("inline-thresholds",))).rules
        if name.endswith("/InlineMultiThreshold#2")
    ]
    assert targets_of(found)[0].rule is not targets_of("inline-thresholds/InlineMultiThreshold")[0].rule


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupted_campaign_tells_what_it_found(tmp_path: Path) -> None:
    options = ["--import", PLANTED, "--cases", "5", "--minutes", "9", "--json", "--corpus", str(tmp_path)]
    campaign = subprocess.Popen(
        [sys.executable, "-m", "onnx_passes", "fuzz", *options, "-j", "2", "planted"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _soon(lambda: any(tmp_path.glob("planted-subtraction-*.onnxtxt")))
        # A terminal interrupts all processes of the group.
        os.killpg(campaign.pid, signal.SIGINT)
        out, err = campaign.communicate(timeout=60)
    finally:
        campaign.kill()
    assert campaign.returncode == 130, err
    told: dict[str, Any] = json.loads(out)
    assert told["stopped"] is True
    assert "planted-subtraction" in {finding["rule"] for finding in told["findings"]}
    assert "Traceback" not in err


def _soon(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end, "it did not happen within a minute"
        time.sleep(0.05)
