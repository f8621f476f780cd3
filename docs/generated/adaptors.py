"""A page for each adaptor, from its description in the code; and the list of toolchains."""

from __future__ import annotations

from typing import Any

import yaml

from generated.models import describe_default, describe_value, make_table, read_attributes
from hone_runtime.contract.adaptor import Adaptor, Support
from hone_runtime.contract.catalogue import Catalogue, find_installed, list_builtin, read_catalogue
from hone_runtime.contract.toolchain import Licence, Toolchain, Verification
from kedro_hone.recipe.prior import read_prior

STATES = {
    Support.FULL: "yes",
    Support.NOT_IMPLEMENTED: "not yet: the toolchain can, the adaptor does not",
    Support.UNSUPPORTED: "no: the toolchain cannot",
    Support.UNKNOWN: "not tried",
}

WHAT_TO_EXPECT = {
    Verification.TESTED: "runs in every `make test`, with a real model",
    Verification.NIGHTLY: "runs in `make test-toolchains`, every night",
    Verification.BY_HAND: "its own tests and the conformance suite passed on a machine that CI has not",
    Verification.UNVERIFIED: "written, never run in our tests beyond its refusals; its pages say so",
}


def make_pages() -> dict[str, str]:
    """Return every page of ``docs/adaptors`` by its file's name."""
    catalogue = read_catalogue()
    pages = {f"{name}.md": make_page(adaptor) for name, adaptor in catalogue.adaptors.items()}
    return {**pages, "index.md": make_index(catalogue)}


def make_index(catalogue: Catalogue) -> str:
    """Return the list of all adaptors."""
    parts = [
        "# Adaptors",
        (
            "One adaptor is one transformation. These are built in; [yours](../write-an-adaptor.md) can join them. "
            "These pages are made from the adaptors' own descriptions."
        ),
    ]
    for toolchain in catalogue.toolchains.values():
        rows = [
            (f"[`{adaptor.name}`]({adaptor.name}.md)", adaptor.stage.value, adaptor.summary)
            for adaptor in catalogue.adaptors.values()
            if adaptor.toolchain == toolchain
        ]
        if not rows:  # a runtime alone, such as that of composites
            continue
        parts += [
            f"## {toolchain.title}",
            make_table(rows, "adaptor", "stage", "what it does"),
        ]
        if toolchain.note:
            parts.append(toolchain.note)
    return "\n\n".join(parts) + "\n"


def list_toolchains(folder: str) -> str:
    """Return the toolchains as a table.

    Args:
        folder: The folder of the adaptors' pages, relative to the page of the table.
    """
    catalogue = read_catalogue()
    rows = []
    for toolchain in catalogue.toolchains.values():
        names = [a for a in catalogue.adaptors.values() if a.toolchain == toolchain]
        if not names:  # a runtime alone, such as that of composites
            continue
        links = ", ".join(f"[{a.name.partition('.')[2]}]({folder}/{a.name}.md)" for a in names)
        rows.append((toolchain.title, links, describe_use(toolchain)))
    return make_table(rows, "toolchain", "adaptors", "")


def describe_use(toolchain: Toolchain) -> str:
    """Return how a recipe enables a toolchain."""
    if toolchain.licence is Licence.EVALUATION:
        return "evaluation licence: off by default, raced only where the recipe names it, never published"
    if not toolchain.lockable:
        return "in an interpreter that the recipe names; off by default"
    if not toolchain.default:
        return "in an environment of its own; off by default"
    return "on by default" if toolchain.extra else "on by default, in an environment of its own"


def describe_support() -> str:
    """Return the toolchains by how they were tested, as a table."""
    built_in = [find_installed(name) for name in list_builtin()]
    rows = []
    for state in Verification:
        names = [f"`{one.name}`" for one in built_in if one and one.verification is state]
        rows.append((state.value, WHAT_TO_EXPECT[state], ", ".join(names)))
    return make_table(rows, "class", "what you may expect", "toolchains")


def make_page(adaptor: Adaptor) -> str:
    """Return the page of one adaptor."""
    toolchain = adaptor.toolchain
    facts = [
        ("stage", adaptor.stage.value),
        ("takes", ", ".join(f"`{form}`" for form in sorted(adaptor.accepts))),
        ("leaves", f"`{adaptor.produces}`"),
        ("precision", ", ".join(sorted(adaptor.precisions))),
        ("needs", ", ".join(sorted(adaptor.needs)).replace("-", " ") or "nothing else"),
        ("the result depends on the machine", "yes" if adaptor.machine_specific else "no"),
        ("in a recipe", describe_use(toolchain) if adaptor.default else "only where it is named"),
        ("tried", f"{toolchain.verification.value}: {WHAT_TO_EXPECT[toolchain.verification]}"),
        ("version", str(adaptor.version)),
    ]
    parts = [f"# {adaptor.name}", adaptor.summary, make_table(facts, "", "")]
    parts += ["## Options", describe_options(adaptor)]
    if adaptor.supports:
        rows = [(capability.replace("-", " "), STATES[state]) for capability, state in adaptor.supports.items()]
        parts += ["## Capabilities", make_table(rows, "", "")]
    known = read_capabilities(adaptor)
    if known:
        parts += ["## What was tried", f"```yaml\n{known}```"]
    if figures := list_usual(adaptor):
        parts += ["## Usual figures", figures]
    parts += ["## Environment", describe_environment(toolchain)]
    return "\n\n".join(parts) + "\n"


def describe_options(adaptor: Adaptor) -> str:
    """Return the options as a table, and how they are written."""
    schema: dict[str, dict[str, Any]] = adaptor.options.model_json_schema().get("properties", {})
    if not schema:
        return "It has none."
    described = {name: field["description"] for name, field in schema.items() if "description" in field}
    meanings = read_attributes(adaptor.options) | {
        name: " ".join(text.replace("``", "`").split()) for name, text in described.items()
    }
    rows = [
        (f"`{name}`", describe_value(field), describe_default(field), meanings[name]) for name, field in schema.items()
    ]
    table = make_table(rows, "option", "takes", "default", "meaning")
    found = next(((name, field["default"]) for name, field in schema.items() if field.get("default") is not None), None)
    if found is None:
        return table
    value = yaml.safe_dump(found[1], default_flow_style=True).splitlines()[0]
    example = f"hone:\n  adaptors:\n    {adaptor.name}:\n      options: {{{found[0]}: {value}}}"
    return f"{table}\n\n```yaml\n{example}\n```"


def read_capabilities(adaptor: Adaptor) -> str:
    """Return the section on ``capabilities.yml`` of an adaptor, or an empty text."""
    path = adaptor.toolchain.folder / "capabilities.yml"
    if not path.is_file():
        return ""
    rows = []
    for row in yaml.safe_load(path.read_text())["versions"]:
        said = {**_list_takes(row), **(row.get("adaptors") or {}).get(adaptor.name, {})}
        said.pop("usual", None)  # it has a separate table
        rows += [{"version": row["version"], **said}] if said else []
    return yaml.safe_dump_all(rows, sort_keys=False, default_flow_style=None, width=110) if rows else ""


def _list_takes(row: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs that a version takes for all adaptors of its toolchain."""
    return {"every adaptor takes": row["takes"]} if "takes" in row else {}


def list_usual(adaptor: Adaptor) -> str:
    """Return the usual times and gains of an adaptor as a table; an empty text if nothing was measured."""
    rows = [
        (kind, level, *(_write(figure) for figure in (usual.seconds, usual.validation, usual.speed)))
        for kind, levels in read_prior(adaptor).items()
        for level, usual in levels.items()
    ]
    if not rows:
        return ""
    head = make_table(rows, "network", "CPU", "seconds", "of a validation", "speed")
    return f"{head}\n\nWhat they mean, and where they were measured: [Search](../concepts/search.md#what-is-expected)."


def _write(figure: float | None) -> str:
    return "" if figure is None else f"{figure:g}"


def describe_environment(toolchain: Toolchain) -> str:
    """Return the contents of the toolchain's environment and the time limit of its workers."""
    wanted = toolchain.requirements.read_text().strip()
    limits = toolchain.limits
    lines = [
        f"Its worker needs, in an [environment](../concepts/environments.md) that agrees:\n\n```text\n{wanted}\n```"
    ]
    if not toolchain.lockable:
        line = f"hone:\n  environments:\n    {toolchain.name}: {{python: /path/to/python}}"
        lines += [
            "Package indexes lack that. It works in an interpreter that the recipe names:",
            f"```yaml\n{line}\n```",
        ]
    lines.append(f"A step may take {limits.seconds:g} seconds and {limits.memory_mb} MiB of memory.")
    if toolchain.environment:
        lines.append(
            "Variables: " + ", ".join(f"`{name}={value}`" for name, value in toolchain.environment.items()) + "."
        )
    if toolchain.note:
        lines.append(toolchain.note)
    return "\n\n".join(lines)
