"""The recipe: the user's settings for one optimization, under ``hone`` in ``conf/base/parameters.yml``.

Every key is documented here once; the reference page is generated from these models.
"""

from __future__ import annotations

import difflib
import math
import os
import reprlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.base import Trust, Value
from hone_runtime.values.digest import digest_json
from kedro_hone.core.gates import read_gates
from kedro_hone.core.problems import explain_unknown, explain_value
from kedro_hone.recipe.bounds import FiniteOptions, Place, Ranges, Section, Shapes, split_names
from kedro_hone.recipe.clients import Goal, ShapeValues, choose_goal
from kedro_hone.recipe.gates import GatesSection, compose_gates, read_section
from kedro_hone.recipe.measurement import ConfirmSection, RaceSection
from kedro_hone.recipe.publish import PublishSection
from kedro_hone.recipe.toolchains import Absolute, EnvironmentSection, Missing


class ModelSection(Section):
    """The model to make faster."""

    uri: Place = Field(description="Its URI or path: models:/name/3, models:/name@alias, or a path.")
    module: Place | None = Field(
        None,
        description="For PyTorch: the author's class as package.module:Class or path/to/file.py:Class. It becomes "
        "the baseline, run as its author runs it. Its file imports installed packages only, no other file of yours. "
        "Needs trust: [module].",
    )
    kwargs: FiniteOptions = Field(default_factory=dict, description="Arguments of that class.")
    task: str | None = Field(
        None,
        description="For Transformers: what the model is for, such as text-classification, where its config.json does "
        "not say so or another one is wanted.",
    )
    base: Place | None = Field(
        None,
        description="Where the model is an adapter of PEFT (LoRA): the model that it was trained on, as a URI or path. "
        "The two are merged, and what that makes is the source.",
    )
    signature: str | None = Field(
        None,
        min_length=1,
        description="For a SavedModel of TensorFlow: the signature to make faster. When empty: serving_default, or the "
        "only one.",
    )
    inputs: tuple[TensorSpec, ...] = Field(
        (),
        description="Its inputs, each as `{name, dtype, shape}`, if neither model nor signature defines them; equal "
        "names in shapes are equal sizes, as in `[batch, length]`.",
    )
    ranges: Ranges = Field(
        default_factory=dict,
        description="The least and the largest number of an input, by its name, as `{token_type_ids: [0, 1]}`: "
        "candidates are not probed outside.",
    )


class ProgramSection(Section):
    """How data are converted to inputs, and outputs to a score."""

    name: Place = Field(
        "fidelity",
        description="A built-in program such as image-classification; or a file or package, by path or name.",
    )
    options: FiniteOptions = Field(default_factory=dict, description="The program's own options.")
    metric: Place | None = Field(
        None, description="A metric of scikit-learn, or package.module:function; the program's own when empty."
    )


class AdaptorSection(Section):
    """Settings of one adaptor."""

    enabled: bool | None = Field(
        None,
        description="Whether to use it; empty follows the adaptor's default, and options or a route select it.",
    )
    options: FiniteOptions = Field(
        default_factory=dict,
        description="The adaptor's own options. Where one is a list of values, each of them is a route.",
    )


class ReportSection(Section):
    """What the report shows besides the measurements."""

    price_per_hour: float | None = Field(
        None, gt=0, description="What the machine costs in an hour. The report computes the cost of a million calls."
    )
    currency: str = Field("", max_length=12, description="The currency of that price, such as EUR.")

    @model_validator(mode="after")
    def _check_currency(self) -> ReportSection:
        if self.price_per_hour is not None and not self.currency.strip():
            raise ValueError("report.price_per_hour needs report.currency, such as EUR")
        return self


class Recipe(ShapeValues, Section):
    """The user's settings for one optimization."""

    model: ModelSection
    trust: Annotated[frozenset[Trust], PlainSerializer(sorted, when_used="json")] = Field(
        frozenset(),
        description="What may be executed: module (the class named above), native (a source that is "
        "a winner in machine code), pickle (a source that is one), remote-code (the code in a repository of "
        "Transformers).",
    )
    program: ProgramSection = ProgramSection()
    shapes: Shapes = Field(
        {"batch1": {"batch": 1}},
        min_length=1,
        description="Sizes that every candidate must serve, by name: letters, digits, _, - and dots. Of several "
        "environments' files all count; null leaves one out. `clients` beside the sizes is how many call at once.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="Threads of a runtime; all cores when empty. Another number builds everything again.",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seeds calibration, the order of the rounds and the bootstrap.")
    toolchains: Annotated[tuple[str, ...] | Literal["default", "all"], BeforeValidator(split_names)] = Field(
        "default", description="The toolchains to use: default, all, or a list of names."
    )
    environments: dict[str, EnvironmentSection] = Field(
        default_factory=dict, description="What the workers of toolchains run in, by the toolchain's name."
    )
    missing_toolchains: Missing = Field(
        "build",
        description="Where a toolchain has no environment: build it; skip its candidates; or error, which ends the run "
        "before anything is built.",
    )
    wheels: Absolute | None = Field(
        None, description="A folder of wheels from which environments are installed, without a package index."
    )
    adaptors: dict[str, AdaptorSection] = Field(default_factory=dict, description="Settings of adaptors, by name.")
    routes: tuple[tuple[str, ...], ...] = Field(
        (),
        description="Chains of compressors besides those that follow each other by themselves, as lists of adaptors "
        "that start at a backend.",
    )
    gates: SerializeAsAny[Annotated[GatesSection, BeforeValidator(read_section)]] = Field(
        default_factory=lambda: read_section({})
    )
    budget: Annotated[float, Field(gt=0)] | Literal["quick", "default", "thorough"] = Field(
        "default",
        description="How long the search may take, in seconds or by a name; thorough has no end. See Search.",
    )
    race: RaceSection = RaceSection()
    confirm: ConfirmSection = ConfirmSection()
    publish: PublishSection = PublishSection()
    report: ReportSection = ReportSection()
    serving: bool = Field(
        default=False,
        description="Serve the source and the winner after the gates, each in the same way, and add to the "
        "report what 1, 4 and 16 clients measure of both. It takes some minutes.",
    )
    choose: str | None = Field(
        None, min_length=1, description="Set by `kedro hone choose`: the candidate that is confirmed and gated."
    )
    calibration_rows: int = Field(256, ge=1, description="Rows of the calibration split that are used.")
    golden_rows: int = Field(
        1,
        ge=0,
        le=64,
        description="Rows of the gate split that are published with the winner and its outputs for them; "
        "`kedro_hone.load` compares what it computes. 0 publishes none.",
    )

    @model_validator(mode="after")
    def _name_shapes(self) -> Recipe:
        known = set(self.shapes)
        weights = self.race.weights
        _ = self.goal  # a ValueError if no shape counts for the objective
        limits = [getattr(self.gates, gate.name) for gate in read_gates() if gate.per_shape]
        if unknown := set(weights).union(*limits) - known:
            raise ValueError(f"unknown shapes {sorted(unknown)}; the recipe has {sorted(known)}")
        if weights and (set(weights) != known or min(weights.values()) < 0 or not 0 < sum(weights.values()) < math.inf):
            raise ValueError("race.weights names every shape, with numbers that are not negative and have a sum over 0")
        if self.model.module and "module" not in self.trust:
            raise ValueError("model.module names a class that would be executed: add `hone.trust: [module]`")
        return self

    @model_validator(mode="after")
    def _check_text(self) -> Recipe:
        digest_json(self.model_dump(mode="json"))  # a ValueError if a text is not valid UTF-8
        return self

    @property
    def goal(self) -> Goal:
        """What the search maximizes, and at which shapes."""
        return choose_goal(self.race.objective, self.clients, budget=self.race.latency_budget_ms)

    @property
    def all_gates(self) -> GatesSection:
        """The gates, with the budget of latency at each shape with several clients, unless its own limit is smaller."""
        budget, own = self.race.latency_budget_ms, self.gates.latency_p99_ms
        if budget is None:
            return self.gates
        several = {name: budget for name, count in self.clients.items() if count > 1}
        limits = {**own, **{name: min(most, own.get(name, most)) for name, most in several.items()}}
        return self.gates.model_copy(update={"latency_p99_ms": limits})

    @property
    def thread_count(self) -> int:
        """The number of threads, determined if the recipe has none."""
        return self.threads or len(os.sched_getaffinity(0))

    @property
    def digest(self) -> str:
        """``sha256:…`` of the validated recipe, with its defaults."""
        return digest_json(self.model_dump(mode="json"))


def read_recipe(parameters: Mapping[str, Any]) -> Recipe:
    """Check a recipe: the value of ``hone`` in the parameters.

    Raises:
        HoneError: ``recipe-invalid``, with every invalid key and the nearest valid one.
    """
    try:
        return Recipe.model_validate(parameters)
    except ValidationError as error:
        said = [
            *dict.fromkeys(map(_explain, error.errors()))
        ]  # each kind of option that toolchains may have is one of pydantic's
        what = f"The recipe has {'a problem' if len(said) == 1 else f'{len(said)} problems'}."
        hint = "Correct the recipe: in conf/*/parameters.yml, in --params or by a flag; "
        hint += "Recipe in the documentation lists all keys."
        raise HoneError("recipe-invalid", what, why=said, hint=hint) from error


def _explain(problem: Mapping[str, Any]) -> str:
    where = ".".join(("hone", *map(str, problem["loc"])))
    if where == "hone" and problem["type"] == "model_type":
        given = f"the value of `hone` in the parameters is {problem['input']!r}, and not keys with values"
        return f"{given}; write at least `hone: {{model: {{uri: models:/NAME/1}}}}` into conf/base/parameters.yml"
    if problem["type"] != "extra_forbidden":
        if problem["loc"][:1] == ("toolchains",) and not isinstance(problem["input"], tuple):
            return f"hone.toolchains: must be default, all or a list of names, and not {reprlib.repr(problem['input'])}"
        return explain_value(where, problem)
    *parents, key = problem["loc"]
    if parents[:1] == ["adaptors"] and (name := _find_adaptor(*problem["loc"][1:])):
        return (
            f"{where}: the name of an adaptor contains a dot, and a key with a dot is two keys; write, say, "
            f"`adaptors: {{{name}: {{enabled: false}}}}` in conf/base/parameters.yml, "
            f"or the name in brackets: --params 'hone.adaptors[{name}].enabled=false' of kedro run, "
            f"--set 'adaptors[{name}].enabled=false' of optimize"
        )
    sections: dict[str, type[Value]] = {
        "gates": compose_gates(read_gates()),
        "adaptors": AdaptorSection,
        "environments": EnvironmentSection,
    }
    section = sections.get(parents[0], Recipe.model_fields[parents[0]].annotation) if parents else Recipe
    return explain_unknown(where, str(key), getattr(section, "model_fields", ()))


def _find_adaptor(toolchain: str, *rest: str) -> str | None:
    """Return the adaptor if its name was parsed as two keys; None if the first is not a toolchain."""
    known = [name for name in read_catalogue().adaptors if name.startswith(f"{toolchain}.")]
    return next(iter(difflib.get_close_matches(".".join((toolchain, *rest)), known, n=1, cutoff=0.0)), None)
