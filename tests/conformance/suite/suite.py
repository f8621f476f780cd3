"""The conformance suite as a pytest class: subclass it, and give it an adaptor and an artifact."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from hone_runtime.contract.adaptor import Adaptor, Need, Options
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.artifact import Artifact, Shape
from hone_runtime.values.base import Json
from hone_runtime.values.outcome import Failed
from kedro_hone.testing.checks import CHECKS
from kedro_hone.testing.trial import Arrays, NotApplicable, Trial, make_arrays, make_shapes


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
    def training(self) -> Path | None:
        """An npz file of the rows that it is trained with, for those that need some."""
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
        request: pytest.FixtureRequest,
        adaptor: Adaptor,
        artifact: Artifact,
        files: Path,
        options: Options,
        host: Host,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Trial:
        """The adaptor under test; one for all tests of a class, since transforming may take minutes."""
        if Need.PROGRAM in adaptor.needs and request.getfixturevalue("program") is None:
            pytest.skip(f"{adaptor.name} needs a program: override the fixture of that name")
        if Need.TRAINING_DATA in adaptor.needs and request.getfixturevalue("training") is None:
            pytest.skip(f"{adaptor.name} needs training data: override the fixture `training`")
        if missing := adaptor.find_missing(host):
            pytest.skip(f"{adaptor.name} {missing}")
        key = f"{type(self).__qualname__} {adaptor.name} {artifact.digest} {options!r}"
        if key not in self._trials:
            folder = tmp_path_factory.mktemp("trial")
            shutil.copytree(files, folder / "source")  # the fixture's own may be gone after its test
            others = ("python", "shapes", "make_feeds", "limits", "calibration", "training", "program", "trust")
            self._trials[key] = Trial(
                adaptor=adaptor,
                artifact=artifact,
                files=folder / "source",
                options=options.resolve(host),
                host=host,
                folder=folder,
                **{name: request.getfixturevalue(name) for name in others},
            )
        return self._trials[key]

    @pytest.mark.parametrize("check", CHECKS)
    def test_contract(self, trial: Trial, check: str) -> None:
        """Each check of ``kedro_hone.testing.checks`` is one test; one that does not apply is skipped."""
        try:
            CHECKS[check](trial)
        except NotApplicable as reason:
            pytest.skip(str(reason))
