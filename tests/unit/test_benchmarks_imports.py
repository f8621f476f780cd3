"""Those who judge kedro-hone use nothing of it but the public loader: ``benchmarks/honesty.py`` and its process."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

ALLOWED = frozenset({*sys.stdlib_module_names, "numpy", "mlflow", "torch", "onnxruntime", "kedro_hone"})
"""What it may import: no statistics but numpy's median, and what source models are loaded and run with."""


def find_faults(code: str) -> list[str]:
    """Return every import that is not allowed, and every use of kedro_hone but ``kedro_hone.load``."""
    nodes = list(ast.walk(ast.parse(code)))
    owners = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
    faults = []
    for node in nodes:
        if isinstance(node, ast.Import):
            faults += [alias.name for alias in node.names if alias.name.partition(".")[0] not in ALLOWED]
            faults += [a.name for a in node.names if a.name.startswith("kedro_hone") and (a.asname or "." in a.name)]
        elif isinstance(node, ast.ImportFrom):
            if node.level or str(node.module).partition(".")[0] not in ALLOWED - {"kedro_hone"}:
                faults.append(f"from {node.module}")
        elif isinstance(node, ast.Name) and node.id == "kedro_hone" and owners.get(id(node)) != "load":
            faults.append(f"kedro_hone.{owners.get(id(node), '')}")
        elif isinstance(node, ast.Name) and node.id == "__import__":
            faults.append("__import__")
    return faults


@pytest.mark.parametrize("name", ["honesty.py", "honesty_model.py"])
def test_honesty_uses_only_public_loaders(name):
    assert find_faults((BENCHMARKS / name).read_text()) == []


def test_it_does_load_the_winner_by_the_public_loader():
    assert "kedro_hone.load(" in (BENCHMARKS / "honesty_model.py").read_text()


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
