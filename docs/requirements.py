"""Print what the extra ``docs`` needs, so that Sphinx is installed without the package and all that it needs."""

import sys
import tomllib
from pathlib import Path

with (Path(__file__).parent.parent / "pyproject.toml").open("rb") as file:
    project = tomllib.load(file)["project"]
sys.stdout.write("\n".join(project["optional-dependencies"]["docs"]) + "\n")
