"""Print the oldest versions that pyproject.toml allows, as requirements."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
    print(requirement.replace(">=", "=="))
print("pyparsing<3.3")  # the oldest matplotlib uses names of it that 3.3 warns of
