"""Write the pages that are made from the package: passes, operators, command line, Python interface, benchmarks.

    python docs/generate.py [FOLDER]

FOLDER is docs/reference/generated unless it is named; `make docs` runs this before Sphinx.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from generators.api import write_api  # noqa: E402
from generators.benchmarks import write_benchmarks  # noqa: E402
from generators.catalogue import write_catalogue  # noqa: E402
from generators.command_line import write_command_line  # noqa: E402
from generators.markdown import toctree, write_page  # noqa: E402
from generators.operators import write_operators  # noqa: E402


def main(folder: Path) -> None:
    """Write all pages into a folder."""
    write_catalogue(folder / "passes")
    write_operators(folder / "operators")
    write_command_line(folder / "cli")
    write_api(folder / "api")
    write_benchmarks(folder / "benchmarks.md")
    pages = [*(f"{name}/index" for name in ("passes", "operators", "cli", "api")), "benchmarks"]
    write_page(folder / "index.md", "# Reference", toctree(pages, hidden=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "reference" / "generated")
