"""``benchmarks/honesty.py`` judges kedro-hone, so it uses nothing of it but the loader that every user has."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

HONESTY = Path(__file__).parents[2] / "benchmarks" / "honesty.py"

ALLOWED = frozenset({*sys.stdlib_module_names, "numpy", "mlflow", "torch", "onnxruntime", "kedro_hone"})
"""What it may import: no statistics but numpy's median, and what source models are loaded and run with."""


def find_faults(code: str) -> list[str]:
    """Return every import that is not allowed, and every use of kedro_hone but ``kedro_hone.load``."""
    faults = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            faults += [name for name in names if name.partition(".")[0] not in ALLOWED]
            faults += [name for name in names if name.startswith("kedro_hone.")]
            faults += [f"as {a.asname}" for a in node.names if a.name.startswith("kedro_hone") and a.asname]
        elif isinstance(node, ast.ImportFrom):
            if node.level or str(node.module).partition(".")[0] not in ALLOWED - {"kedro_hone"}:
                faults.append(f"from {node.module}")
        elif isinstance(node, ast.Name) and node.id == "kedro_hone":
            faults.append("kedro_hone by itself")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kedro_hone":
            faults.append(f"kedro_hone.{node.attr}")
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "__import__":
            faults.append("__import__")
    uses = faults.count("kedro_hone.load")  # each is seen twice: as an attribute, and as the name before it
    return [fault for fault in faults if fault != "kedro_hone.load" and not (fault == "kedro_hone by itself" and uses)]


def test_honesty_uses_only_public_loaders():
    assert find_faults(HONESTY.read_text()) == []


def test_it_does_load_the_winner_by_the_public_loader():
    assert "kedro_hone.load(" in HONESTY.read_text()


@pytest.mark.parametrize(
    "planted",
    [
        "import scipy.stats",
        "import kedro_hone.core.stats",
        "import kedro_hone as hone",
        "import kedro_hone\nkedro_hone.learner.Learner",
        "import kedro_hone\nload = kedro_hone",
        "from kedro_hone import load",
        "from kedro_hone.core import stats",
        "from .error_rates import draw_modes",
        "import error_rates",
        "__import__('kedro_hone.core.stats')",
    ],
)
def test_a_planted_import_is_found(planted):
    assert find_faults(planted)
