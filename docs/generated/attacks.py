"""The attacks in the tests, from the marks ``pytest.mark.attack`` of the tests, which are not imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from generated.models import make_table

WHO = {
    "registry": "who writes to the registry",
    "store": "who writes to the store or its cache",
    "recipe": "who writes the recipe, as a pull request does",
    "pull request": "who opens a pull request on which the action runs",
    "network": "who can reach the service of kedro hone listen, or a server of kedro-hone serve",
    "worker": "a toolchain, or a model that took over its worker",
    "package index": "who publishes packages",
    "data": "who writes the data",
    "nobody": "an accident",
}
"""The persons who can mount an attack: the values of ``who``."""

_TESTS = Path(__file__).parents[2] / "tests"


def list_attacks() -> str:
    """Return the table of the attacks."""
    rows = sorted({row for path in sorted(_TESTS.rglob("test_*.py")) for row in _read_marks(path)})
    groups = [(WHO[who], [row for of, *row in rows if of == who]) for who in WHO]
    parts = [f"{len(rows)} attacks, by who can mount them."]
    for title, found in groups:
        if found:
            table = make_table([(*row,) for row in found], "attack", "what stops it", "kernel feature", "test")
            parts.append(f"## {title[0].upper()}{title[1:]}\n\n{table}")
    return "\n\n".join(parts)


def _read_marks(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the attacker, the attack, what stops it, the kernel's feature and the test, for each mark in a file.

    Raises:
        ValueError: A mark is incomplete, or has an unknown attacker.
    """
    for test in ast.walk(ast.parse(path.read_text())):
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        for mark in (node for part in test.decorator_list for node in ast.walk(part)):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.attack":
                said = {"feature": "none", **{str(key.arg): ast.literal_eval(key.value) for key in mark.keywords}}
                if set(said) != {"what", "who", "stopped_by", "feature"} or said["who"] not in WHO:
                    raise ValueError(
                        f"{path.name}, {test.name}: attack(what=, who= one of {[*WHO]}, stopped_by=, feature=)"
                    )
                place = path.relative_to(_TESTS.parent)
                yield said["who"], said["what"], said["stopped_by"], said["feature"], f"`{place}::{test.name}`"
