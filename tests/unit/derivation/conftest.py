"""What the tests of derivation share: tables of customers, and the worker that reads splits in a run."""

from __future__ import annotations

import random

import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone import programs


@pytest.fixture(scope="session")
def worker():
    """The worker of programs, loaded by path as in its own process."""
    return load_file("hone_worker_of_programs", str(programs.LIBRARY / "worker" / "__init__.py"))


@pytest.fixture
def read_splits(worker, tmp_path):
    """Read splits by a program, as a run does; return the notes of the worker."""

    def read(program, paths, *, inputs, outputs, folder=None, **options):
        output = tmp_path / "prepared"
        output.mkdir(exist_ok=True)
        given = {"inputs": list(inputs), "outputs": list(outputs)}
        return worker.read(
            {
                "input": {**given, "path": str(folder)} if folder else given,
                "output": str(output),
                "options": {
                    "program": programs.find_program(program, project=tmp_path).path,
                    "program_options": options,
                    "project": str(tmp_path),
                    "seed": 0,
                    "splits": {name: {"path": str(path)} for name, path in paths.items()},
                },
            }
        )

    return read


@pytest.fixture
def customers():
    """Records of customers: two numbers, text with accents and with the word NA, and a class, one in ten rare."""

    def make(rows, *, seed=0):
        chance = random.Random(seed)
        return [
            {
                "spent": f"{chance.uniform(0, 2000):.2f}",
                "age": str(chance.randrange(18, 90)),
                "city": chance.choice(["Orléans", "NA", "Bonn", "São Paulo, SP"]),
                "churned": "yes" if chance.random() < 0.1 else "no",
            }
            for _ in range(rows)
        ]

    return make


@pytest.fixture
def write_csv(tmp_path):
    """Write records as a file of delimited text, with quotes where they are needed."""

    def write(records, name="customers.csv", *, delimiter=",", encoding="utf-8", decimal="."):
        lines = [list(records[0]), *([_localize(cell, decimal) for cell in row.values()] for row in records)]
        text = "\n".join(delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in line) for line in lines)
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def _localize(cell, decimal):
    return cell.replace(".", decimal) if cell.replace(".", "").isdigit() else cell
