"""The runner of mutants tells those that tests notice from those that they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import HERE
from tests.mutants.running import Mutant, read, run

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


def test_a_text_that_is_not_there_once_is_an_error(tmp_path: Path):
    package(tmp_path)
    for old in ("a", "c + d"):
        with pytest.raises(ValueError, match="not once"):
            Mutant("sums/adding.py", old, "b").source(tmp_path / "src")


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_every_mutant_is_a_change_of_the_source(path: Path):
    for mutant in read(path).mutants:
        compile(mutant.source(), mutant.file, "exec")
