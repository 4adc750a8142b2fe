"""Every rule of the collection survives fuzzing; the settings in pyproject.toml bound how long that takes."""

from __future__ import annotations


def test_rule_keeps_what_its_pass_promises(fuzzed_rule):
    fuzzed_rule.check()
