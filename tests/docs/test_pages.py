"""The documentation says all that there is, and nothing that is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.errors import SLUGS, ExitCode
from hone_runtime.learner.notes import NOTES
from hone_runtime.values.artifact import ONNX_FACTS
from hone_runtime.values.base import Value
from kedro_hone.cli import cli
from kedro_hone.core.gates import read_gates
from kedro_hone.recipe.gates import GatesSection, compose_gates
from kedro_hone.recipe.schema import Recipe
from kedro_hone.search.steps.inheritance import INHERITED

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OWN = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


def walk(command: click.Command, path: tuple[str, ...] = ()):
    yield path
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from walk(below, (*path, name))


def list_keys(model: type[Value]):
    for name, field in model.model_fields.items():
        yield name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Value):
            yield from list_keys(compose_gates(read_gates()) if field.annotation is GatesSection else field.annotation)


def test_what_is_generated_is_current():
    done = subprocess.run(
        [sys.executable, str(DOCS / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_error_that_is_raised_has_a_page_and_every_page_an_error():
    code = "".join(path.read_text() for top in ("src", "adaptors", "nodes") for path in (ROOT / top).rglob("*.py"))
    raised = {*re.findall(r'Error\(\s*"([a-z]+(?:-[a-z]+)+)"', code)}
    assert len(raised) > 20
    assert raised <= {*SLUGS}
    unused = [slug for slug in SLUGS if f'"{slug}"' not in code]
    assert [slug for slug in unused if f'}}-{slug.rpartition("-")[2]}"' not in code] == []  # f"{kind}-unknown"


@pytest.mark.parametrize("slug", SLUGS)
def test_an_error_page_says_why_what_to_do_and_how_it_looks(slug):
    text = (DOCS / "errors" / f"{slug}.md").read_text()

    assert text.startswith(f"# {slug}\n")
    assert re.match(r"\n\*\*[A-Z][^*]+\.\*\* ", text.removeprefix(f"# {slug}\n"))
    assert all(heading in text for heading in ("## Why it happens", "## What to do", "## How it looks"))
    assert f"\n  more: kedro-hone explain {slug}\n" in text


def test_every_adaptor_has_a_page_and_every_page_an_adaptor():
    builtin = {name for name, adaptor in read_catalogue().adaptors.items() if adaptor.toolchain.name != "toy"}

    assert {path.name.removesuffix(".md") for path in (DOCS / "adaptors").glob("*.md")} - {"index"} == builtin


def test_every_option_of_an_adaptor_is_explained():
    for name, adaptor in read_catalogue().adaptors.items():
        text = (DOCS / "adaptors" / f"{name}.md").read_text()
        for option in adaptor.options.model_fields:
            row = next(line for line in text.splitlines() if line.startswith(f"| `{option}`"))
            assert row.split("|")[4].strip(), f"{name}: {option}"


def test_every_key_of_metadata_with_an_effect_is_in_the_table():
    text = (DOCS / "concepts" / "workers.md").read_text()
    rows = text.partition("## The metadata of an artifact")[2].partition("\n## ")[0].splitlines()
    documented = {
        key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1] if row.startswith("|") else "")
    }
    read = set().union(*(toolchain.reads for toolchain in read_catalogue().toolchains.values()))

    assert documented >= {*NOTES, *INHERITED, *ONNX_FACTS, *read}


@pytest.mark.parametrize("key", sorted(set(list_keys(Recipe))))
def test_every_key_of_the_recipe_is_documented(key):
    text = (DOCS / "reference" / "recipe.md").read_text()

    assert f"| `{key}`" in text or f"| [`{key}`]" in text


@pytest.mark.parametrize("path", [path for path in walk(cli) if path and path != ("hone",)], ids=" ".join)
def test_every_command_is_documented(path):
    assert f"## kedro {' '.join(path)}\n" in (DOCS / "reference" / "cli.md").read_text()


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_documented(code):
    assert f"| {code.value} |" in (DOCS / "reference" / "exit-codes.md").read_text()


@pytest.mark.parametrize("page", [*OWN, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in _LINK.findall(page.read_text()):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_errors_point_to_pages_that_exist():
    source = "".join(
        path.read_text()
        for folder in ("src/kedro_hone", "adaptors", "nodes", "pipelines", "tests/conformance/suite")
        for path in (ROOT / folder).rglob("*.py")
    )
    pages = {page for page in re.findall(r"docs/[\w./-]+\.md", source) if "<" not in page}

    assert [page for page in sorted(pages) if not (ROOT / page).is_file()] == []


def test_every_file_of_attacks_is_in_their_table():
    text = (DOCS / "reference" / "attacks.md").read_text()
    assert text.count("::test_") >= 40
    assert [
        path.name for path in (ROOT / "tests" / "security").glob("test_*.py") if f"/{path.name}::" not in text
    ] == []
