"""The runner of mutants tells those that tests notice from those that they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import HERE
from tests.mutants.random_changes import random_mutants
from tests.mutants.running import Listed, Mutant, read, run

LIST = """
package = "sums"
tests = ["{tests}"]
[[mutant]]
file = "adding.py"
old = "a + b"
new = "a - b"
[[mutant]]
file = "adding.py"
old = "a + b"
new = "b + a"
[[mutant]]
file = "adding.py"
old = "a + b"
new = "b + 1 * a"
survives = "sums do not depend on the order"
[[mutant]]
file = "adding.py"
old = "a + b"
new = "a * b"
survives = "said, but not so"
"""


def package(folder: Path) -> Path:
    """Write a package, a test and a list."""
    (folder / "src" / "sums").mkdir(parents=True)
    (folder / "src" / "sums" / "adding.py").write_text("def add(a, b):\n    return a + b\n")
    (folder / "src" / "sums" / "__init__.py").write_text("")
    tests = folder / "test_adding.py"
    imports = f"import sys\nsys.path.insert(0, {str(folder / 'src')!r})\nfrom sums.adding import add\n"
    tests.write_text(f"{imports}def test_add():\n    assert add(3, 2) == 5\n")
    listed = folder / "sums.toml"
    listed.write_text(LIST.format(tests=tests))
    return listed


def test_what_tests_notice_is_killed(tmp_path: Path):
    result = run(read(package(tmp_path)), jobs=2, root=tmp_path / "src")
    assert [mutant.new for mutant in result.survivors if not mutant.survives] == ["b + a"]
    assert [mutant.new for mutant in result.excused] == ["a * b"]
    assert result.killed == 2


def test_a_remembered_killer_runs_alone(tmp_path: Path):
    listed = read(package(tmp_path))
    tests = tmp_path / "test_adding.py"
    tests.write_text(tests.read_text() + "def test_counts():\n    open(__file__ + 's', 'a').write('.')\n")
    sums, other, *_ = listed.mutants
    only = Listed(listed.package, listed.tests, (replace(sums, new="a - b"),))
    first = run(only, jobs=1, root=tmp_path / "src")
    counts = Path(f"{tests}s")
    counts.unlink()
    killers = {mutant.digest: killer for mutant, killer in first.killers.items()}
    again = run(only, jobs=1, root=tmp_path / "src", killers=killers)
    assert again.killers == first.killers
    assert not counts.exists()
    missed = replace(only, mutants=(*only.mutants, other))
    killers[other.digest] = killers[sums.digest]
    result = run(missed, jobs=1, root=tmp_path / "src", killers=killers)
    assert result.survivors == [other]
    assert counts.exists()


def test_expected_survivors_are_tried_beside_others_or_anew(tmp_path: Path):
    listed = read(package(tmp_path))
    listed = replace(listed, mutants=listed.mutants[2:])
    assert not run(listed, jobs=1, root=tmp_path / "src").excused
    assert run(listed, jobs=1, root=tmp_path / "src", anew=True).excused


def test_a_text_that_is_not_there_once_is_an_error(tmp_path: Path):
    package(tmp_path)
    for old in ("a", "c + d"):
        with pytest.raises(ValueError, match="not once"):
            Mutant("sums/adding.py", old, "b").source(tmp_path / "src")


def test_a_text_is_followed_to_another_file(tmp_path: Path):
    package(tmp_path)
    root = tmp_path / "src"
    (root / "sums" / "adding.py").rename(root / "sums" / "added.py")
    mutant = Mutant("sums/adding.py", "a + b", "a - b")
    assert mutant.path(root) == root / "sums" / "added.py"
    assert "a - b" in mutant.source(root)


CONSTANT = """
LEAST: float = 2
def least(a):
    return max(a, LEAST)
TABLE = {name: number + 1 for name, number in (("a", 1),)}
class Doubled:
    by = 2
    def of(self, a):
        return [self.by * each for each in (lambda b: b)(a)]
"""
CHANGES = [
    ("LEAST: float = 2", "LEAST: float = 1"),
    ("max(a, LEAST)", "max(a, LEAST + 1)"),
    ("by = 2", "by = 3"),
    ("self.by * each", "self.by + each"),
    ("lambda b: b", "lambda b: b[1:]"),
    ("number + 1", "number + 2"),
]


def test_constants_classes_and_nested_functions_are_replaced(tmp_path: Path):
    package(tmp_path)
    (tmp_path / "src" / "sums" / "least.py").write_text(CONSTANT)
    tests = tmp_path / "test_least.py"
    tests.write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path / 'src')!r})\nfrom sums.least import *\n"
        "def test_least():\n    assert least(1) == 2 and Doubled().of([3, 4]) == [6, 8] and TABLE == dict(a=2)\n"
    )
    mutants = tuple(Mutant("sums/least.py", *change) for change in CHANGES)
    result = run(Listed("sums", (str(tests),), mutants), jobs=2, root=tmp_path / "src")
    assert not result.survivors


def test_tests_that_fail_without_a_change_are_named_and_kill_nothing(tmp_path: Path):
    listed = package(tmp_path)
    (tmp_path / "test_adding.py").write_text("def test_add():\n    assert False\n")
    result = run(read(listed), jobs=1, root=tmp_path / "src")
    assert [name.rpartition("/")[2] for name in result.broken] == ["test_adding.py::test_add"]
    assert result.killed == 0


def test_random_changes_are_drawn_once_a_line_and_compile(tmp_path: Path):
    package(tmp_path)
    (tmp_path / "src" / "sums" / "least.py").write_text(CONSTANT)
    drawn = random_mutants("sums", 10, 0, tmp_path / "src")
    assert len(drawn) == 6
    for mutant in drawn:
        compile(mutant.source(tmp_path / "src"), mutant.file, "exec")
    assert drawn == random_mutants("sums", 10, 0, tmp_path / "src")
    assert drawn != random_mutants("sums", 10, 1, tmp_path / "src")


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_every_mutant_is_a_change_of_the_source(path: Path):
    """Rewrite an entry that this names, or delete it if the code that it changed is gone."""
    outdated: list[str] = []
    for mutant in read(path).mutants:
        try:
            compile(mutant.source(), mutant.file, "exec")
        except (SyntaxError, ValueError) as error:
            outdated.append(str(error))
    assert not outdated, f"{path.name}: {len(outdated)} entries no longer apply:\n" + "\n".join(outdated)


def test_what_no_test_executes_is_not_killed(tmp_path: Path):
    listed = read(package(tmp_path))
    path = tmp_path / "src" / "sums" / "adding.py"
    path.write_text(path.read_text() + "def double(a):\n    if a < 0:\n        return -a\n    return 2 * a\n")
    tests = tmp_path / "test_adding.py"
    tests.write_text(
        tests.read_text() + "from sums.adding import double\ndef test_double():\n    assert double(1) == 2\n"
    )
    beyond, within = Mutant("sums/adding.py", "return -a", "return a"), Mutant("sums/adding.py", "2 * a", "3 * a")
    found = run(replace(listed, mutants=(beyond, within)), jobs=1, root=tmp_path / "src")
    assert found.survivors == [beyond]
    assert found.killers.keys() == {within}
