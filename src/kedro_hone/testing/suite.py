"""The conformance suite as a pytest class: subclass it, and give it an adaptor and an artifact."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from kedro_hone.core.contract.adaptor import Adaptor, Need, Options
from kedro_hone.core.contract.host import Host
from kedro_hone.core.contract.toolchain import Limits
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.values.artifact import Artifact, Shape
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.outcome import Failed
from kedro_hone.testing import checks
from kedro_hone.testing.trial import Arrays, Case, NotApplicable, Trial, make_arrays, make_shapes


class AdaptorSuite:
    """Checks one adaptor. Give it the fixtures ``adaptor`` and ``artifact``; override the others where needed."""

    _trials: ClassVar[dict[str, Trial]] = {}

    @pytest.fixture
    def options(self, adaptor: Adaptor) -> Options:
        """The options to test with: the defaults."""
        return adaptor.options()

    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        """The folder of the artifact's files: the fixture ``artifact`` writes them into ``tmp_path``."""
        return tmp_path

    @pytest.fixture
    def python(self, adaptor: Adaptor) -> Path:
        """The interpreter: that of the toolchain's environment, which is built when it is missing."""
        from kedro_hone.core.environments.store import EnvironmentStore  # noqa: PLC0415 - unless a python is given

        environment = EnvironmentStore().ensure(adaptor.toolchain)
        if isinstance(environment, Failed):
            pytest.fail(f"the environment of {adaptor.toolchain.name} cannot be built: {environment.reason}")
        return Path(environment.python)

    @pytest.fixture
    def shapes(self, artifact: Artifact) -> tuple[Shape, ...]:
        """The shapes that the result must serve: batches of 1, 2 and 5."""
        return make_shapes(artifact.inputs)

    @pytest.fixture
    def make_feeds(self, artifact: Artifact) -> Callable[[Shape], Arrays]:
        """Make the inputs of a shape: standard normal numbers, or zeros and ones for integers."""
        return partial(make_arrays, artifact.inputs)

    @pytest.fixture
    def calibration(self) -> Path | None:
        """An npz file of real rows, one array for each input; None for rows of ``make_feeds``."""
        return None

    @pytest.fixture
    def program(self) -> dict[str, Json] | None:
        """The program that the adaptor calls, for those that need one."""
        return None

    @pytest.fixture
    def limits(self, adaptor: Adaptor) -> Limits:
        """The bounds of its workers: the toolchain's."""
        return adaptor.toolchain.limits

    @pytest.fixture
    def host(self) -> Host:
        """The machine: this one."""
        return read_host()

    @pytest.fixture
    def trust(self) -> tuple[str, ...]:
        """What the recipe trusts: nothing."""
        return ()

    @pytest.fixture
    def trial(  # noqa: PLR0917 - pytest gives fixtures by name
        self,
        adaptor: Adaptor,
        artifact: Artifact,
        files: Path,
        options: Options,
        python: Path,
        shapes: tuple[Shape, ...],
        make_feeds: Callable[[Shape], Arrays],
        calibration: Path | None,
        program: dict[str, Json] | None,
        limits: Limits,
        host: Host,
        trust: tuple[str, ...],
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Trial:
        """The adaptor under test; one for all tests of a class, since transforming may take minutes."""
        if Need.PROGRAM in adaptor.needs and program is None:
            pytest.skip(f"{adaptor.name} needs a program: override the fixture of that name")
        if missing := adaptor.find_missing(host):
            pytest.skip(f"{adaptor.name} {missing}")
        key = f"{type(self).__qualname__} {adaptor.name} {artifact.digest} {options!r}"
        if key not in self._trials:
            folder = tmp_path_factory.mktemp("trial")
            shutil.copytree(files, folder / "source")  # the fixture's own may be gone after its test
            case = Case(
                adaptor=adaptor,
                artifact=artifact,
                files=folder / "source",
                options=options.resolve(host),
                python=python,
                host=host,
                folder=folder,
                shapes=shapes,
                make_feeds=make_feeds,
                limits=limits,
                calibration=calibration,
                program=program,
                trust=trust,
            )
            self._trials[key] = Trial(case)
        return self._trials[key]

    def test_01_description(self, trial: Trial) -> None:
        """The adaptor's description is complete: a sentence, a version, a worker, requirements, a known format."""
        _apply(checks.check_description, trial)

    def test_02_options(self, trial: Trial) -> None:
        """The defaults of the options are valid, survive JSON, cannot be changed, and unknown keys are errors."""
        _apply(checks.check_options, trial)

    def test_03_schema(self, trial: Trial) -> None:
        """The options export a JSON Schema, which documentation and editors use."""
        _apply(checks.check_schema, trial)

    def test_04_imports(self, trial: Trial) -> None:
        """Importing the adaptor's module imports no toolchain."""
        _apply(checks.check_imports, trial)

    def test_05_name(self, trial: Trial) -> None:
        """No other adaptor has this name."""
        _apply(checks.check_name, trial)

    def test_06_can_take(self, trial: Trial) -> None:
        """``can_take`` returns the same twice, and imports no toolchain."""
        _apply(checks.check_can_take, trial)

    def test_07_refusal(self, trial: Trial) -> None:
        """``can_take`` returns None or a refusal with a reason, whatever the artifact."""
        _apply(checks.check_refusal, trial)

    def test_08_writes_inside(self, trial: Trial) -> None:
        """It writes only into its output and temporary directories."""
        _apply(checks.check_writes_inside, trial)

    def test_09_input_unchanged(self, trial: Trial) -> None:
        """Every byte of its input is as it was."""
        _apply(checks.check_input_unchanged, trial)

    def test_10_transforms(self, trial: Trial) -> None:
        """It transforms the artifact in its own environment within its limits; a refusal has a reason."""
        _apply(checks.check_transforms, trial)

    def test_11_verifies(self, trial: Trial) -> None:
        """The output holds the format's files and the tensors that it declares."""
        _apply(checks.check_verifies, trial)

    def test_12_processes(self, trial: Trial) -> None:
        """It leaves no orphan process."""
        _apply(checks.check_processes, trial)

    def test_13_log(self, trial: Trial) -> None:
        """It prints no more than its log keeps, so that no message is lost."""
        _apply(checks.check_log, trial)

    def test_14_deterministic(self, trial: Trial) -> None:
        """The same job gives the same bytes, unless the adaptor says that it does not."""
        _apply(checks.check_deterministic, trial)

    def test_15_loads(self, trial: Trial) -> None:
        """Its toolchain loads the result in a new process."""
        _apply(checks.check_loads, trial)

    def test_16_runs(self, trial: Trial) -> None:
        """The result runs at every batch size that it must serve."""
        _apply(checks.check_runs, trial)

    def test_17_shapes(self, trial: Trial) -> None:
        """Its outputs have the declared names, types and shapes."""
        _apply(checks.check_shapes, trial)

    def test_18_finite(self, trial: Trial) -> None:
        """Its outputs are finite numbers."""
        _apply(checks.check_finite, trial)


def _apply(check: Callable[[Trial], None], trial: Trial) -> None:
    try:
        check(trial)
    except NotApplicable as reason:
        pytest.skip(str(reason))
