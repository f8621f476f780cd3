from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from proof import SOURCE_DIGEST, SOURCE_URI, prove

from hone_runtime.contract import aliases
from hone_runtime.contract.registries import find_broken, find_registry, read_registries
from hone_runtime.contract.registry import Registry, VersionInfo, check_names, explain_skipped, explain_unknown
from hone_runtime.contract.tags import make_tags
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from kedro_hone.cli.plugins import registries

MODULE = """
from hone_runtime.contract.registry import Registry

class Remote(Registry):
    def resolve(self, uri): ...
    def pull(self, uri, folder): ...
    def publish(self, winner, *, name, tags, alias, metrics=None): ...

class Local(Remote): ...

def make_remote():
    return Remote()
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of modules and installed packages; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fake_registries.py").write_text(MODULE)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("fake_"):
            del sys.modules[name]


def install(site, package: str, scheme: str, target: str) -> None:
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kedro_hone.registries]\n{scheme} = {target}\n")


def catch(call) -> HoneError:
    with pytest.raises(HoneError) as caught:
        call()
    return caught.value


def test_ours_keep_the_contract():
    assert find_broken(read_registries().values()) == {}
    assert isinstance(find_registry("models:/digits/1"), Registry)
    assert isinstance(find_registry("./digits"), Registry)
    assert isinstance(find_registry("hf://owner/name"), Registry)
    assert isinstance(find_registry(f"runs:/{'0' * 32}/model"), Registry)
    assert {"models", "runs", "hf", ""} <= set(read_registries())


def test_the_scheme_decides(site):
    table = {"models": "fake_registries:Remote", "": "fake_registries:Local"}
    assert type(find_registry("models:/digits@champion", table)).__name__ == "Remote"
    assert type(find_registry("data/model:v1", table)).__name__ == "Local"
    assert type(find_registry("./model", table)).__name__ == "Local"


def test_an_unknown_registry_names_the_known_ones(site):
    install(site, "hub", "hub", "fake_registries:Remote")
    error = catch(lambda: find_registry("model:/digits/3"))
    assert error.slug == "registry-unknown"
    assert all(known in error.why for known in ("models", "hub", "a path"))
    assert "Did you mean the scheme models?" in error.hint


@pytest.mark.parametrize("target", ["fake_registries:Remote", "fake_registries:make_remote"])
def test_other_packages_come_by_entry_points_and_are_imported_when_asked_for(site, target):
    install(site, "hub", "Hub", target)
    assert read_registries()["hub"].origin == "the package hub"
    assert "fake_registries" not in sys.modules
    assert type(find_registry("hub://digits/3")).__name__ == "Remote"


def test_a_registry_that_takes_the_project_is_given_it(site):
    (site / "fake_home.py").write_text(
        "from fake_registries import Remote\n"
        "class Home(Remote):\n    def __init__(self, project=None):\n        self.project = project\n"
    )
    table = {"home": "fake_home:Home", "": "fake_registries:Local"}
    assert find_registry("home://digits", table, project=site).project == site
    assert find_registry("home://digits", table).project is None
    assert isinstance(find_registry("./model", table, project=site), Registry)
    assert find_registry("models/digits", project=site).root == site


@pytest.mark.parametrize("scheme", ["models", "hub"])
def test_a_scheme_that_is_taken_is_an_error(site, scheme):
    install(site, "hub", "hub", "fake_registries:Remote")
    install(site, "other", scheme, "fake_registries:Local")
    error = catch(lambda: find_registry("./model"))
    assert error.slug == "registry-scheme-taken"
    assert "the package other" in error.why
    assert ("built in" if scheme == "models" else "the package hub") in error.why


@pytest.mark.parametrize(
    ("uri", "package", "extra"),
    [
        ("models:/churn@honed", "mlflow", "mlflow"),
        ("runs:/1/model", "sqlalchemy", "mlflow"),
        ("hf://org/churn", "huggingface_hub", "huggingface"),
    ],
)
def test_a_registry_without_its_client_names_the_extra(uri, package, extra):
    code = f"""
import sys
sys.modules[{package!r}] = None
import kedro_hone
from hone_runtime.errors import HoneError
try:
    kedro_hone.load({uri!r})
except HoneError as error:
    print(error.slug, error)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("registry-not-installed")
    assert f"pip install 'kedro-hone[{extra}]'" in done.stdout


@pytest.mark.parametrize(
    ("text", "target", "clue"),
    [
        ("raise RuntimeError('no client')", "fake_broken:Hub", "RuntimeError: no client"),
        ("import sys; sys.exit('bye')", "fake_broken:Hub", "SystemExit: bye"),
        ("", "fake_broken:Hub", "has no attribute 'Hub'"),
        ("", "fake_missing:Hub", "No module named 'fake_missing'"),
    ],
)
def test_a_broken_package_is_listed_and_stops_only_its_own_uris(site, text, target, clue):
    (site / "fake_broken.py").write_text(text)
    install(site, "hub", "hub", target)
    error = catch(lambda: find_registry("hub://digits/3"))
    assert error.slug == "registry-broken"
    assert clue in error.why
    assert isinstance(find_registry("./model"), Registry)
    listed = CliRunner().invoke(registries)
    assert listed.exit_code == 0
    assert f"broken the package hub ({target})" in listed.output
    assert clue in listed.output
    assert "models:" in listed.output


@pytest.mark.parametrize(
    ("base", "clue"),
    [("", "is of the type Hub, not Registry"), ("(Registry)", "Can't instantiate abstract class Hub")],
)
def test_what_lacks_a_method_of_the_contract_is_broken(site, base, clue):
    text = f"from fake_registries import Registry\nclass Hub{base}:\n    def resolve(self, uri): ...\n"
    (site / "fake_broken.py").write_text(text)
    install(site, "hub", "hub", "fake_broken:Hub")
    assert clue in catch(lambda: find_registry("hub://digits/3")).why


def test_what_cannot_be_a_scheme_is_listed(site):
    install(site, "hub", "my_hub", "fake_registries:Remote")
    assert "cannot be the scheme of a URI" in CliRunner().invoke(registries).output


def test_the_errors_of_a_registry_itself_are_its_own(site):
    (site / "fake_broken.py").write_text(
        "from hone_runtime.errors import HoneError\n"
        "def make():\n    raise HoneError('registry-unreachable', 'No token.', why='None.', hint='Log in.')\n"
    )
    install(site, "hub", "hub", "fake_broken:make")
    assert catch(lambda: find_registry("hub://digits/3")).slug == "registry-unreachable"


CALLS = {
    "resolve": lambda hub: hub.resolve("hub://digits/3"),
    "pull": lambda hub: hub.pull("hub://digits/3", Path("pulled")),
    "versions_since": lambda hub: hub.versions_since(None),
    "publish": lambda hub: hub.publish(None, name="digits", tags={}, alias=None),
    "propose": lambda hub: hub.propose(None, name="digits", tags={}, alias=None),
    "find_problem": lambda hub: hub.find_problem(name="digits", alias=None),
    "find_source": lambda hub: hub.find_source("hub://digits"),
    "list_aliases": lambda hub: hub.list_aliases("digits"),
    "name_version": lambda hub: hub.name_version("digits", "3"),
    "move_alias": lambda hub: hub.move_alias("hub://digits/3", "honed"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("raise KeyError('boom')", "KeyError: 'boom'"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("return 7", "7"),
    ],
)
def test_a_method_that_fails_names_its_package(site, name, text, clue):
    body = "".join(f"    def {one}(self, *rest, **named):\n        {text}\n" for one in CALLS)
    (site / "fake_broken.py").write_text(f"from fake_registries import Registry\nclass Hub(Registry):\n{body}")
    install(site, "hub", "hub", "fake_broken:Hub")
    hub = find_registry("hub://digits/3")

    error = catch(lambda: CALLS[name](hub))

    assert error.slug == "registry-broken"
    assert "the package hub" in error.why
    assert f"{name} " in error.why
    assert clue in error.why


MINIMAL = """
from hone_runtime.contract.registry import Publication, Registry, VersionInfo
from hone_runtime.errors import HoneError

INFO = VersionInfo(uri="hub:/digits/3", name="digits", version="3")

class Minimal(Registry):
    def resolve(self, uri):
        raise HoneError("model-unknown", "None.", why="None.", hint="None.")

    def pull(self, uri, folder):
        return INFO

    def publish(self, winner, *, name, tags, alias, metrics=None):
        return Publication(uri=f"hub:/{name}/4", version="4", alias=alias)
"""
WHOLE = f"""{MINIMAL}
from hone_runtime.contract.registry import NewVersions

class Whole(Minimal):
    keeps_versions_apart = has_proposals = True
    moved = []

    def propose(self, winner, **named):
        return Publication(uri="hub:/digits/5", version="5", alias=None, note="Accept it there.")

    def find_problem(self, *, name, alias):
        return f"no {{alias}}"

    def find_source(self, uri):
        return "hub:/digits/1"

    def versions_since(self, cursor):
        return NewVersions((INFO,), "3", {{"hub:/digits/2": "gone"}})

    def list_aliases(self, name):
        return {{"honed": "3"}}

    def name_version(self, name, version):
        return f"hub:/{{name}}/{{version}}"

    def move_alias(self, uri, alias):
        self.moved.append((uri, alias))
"""


def test_three_methods_are_a_registry(site, tmp_path):
    (site / "fake_hub.py").write_text(MINIMAL)
    install(site, "hub", "hub", "fake_hub:Minimal")
    hub = find_registry("hub://digits/3")

    assert isinstance(hub, Registry)
    assert catch(lambda: hub.resolve("hub:/digits/3")).slug == "model-unknown"
    assert hub.pull("hub:/digits/3", tmp_path).version == "3"
    assert hub.publish(None, name="digits", tags={}, alias="best").alias == "best"
    assert (hub.keeps_versions_apart, hub.has_proposals) == (False, False)
    assert hub.find_problem(name="digits", alias="best") == ""
    assert hub.find_source("hub:/digits") == "hub:/digits"
    assert hub.list_aliases("digits") is None
    assert aliases.read_aliases(hub, "digits") == {}
    for name in ("propose", "versions_since", "name_version", "move_alias"):
        assert catch(lambda name=name: CALLS[name](hub)).slug == "registry-refused"


def test_a_registry_that_offers_everything_is_asked_for_it(site):
    (site / "fake_hub.py").write_text(WHOLE)
    install(site, "hub", "hub", "fake_hub:Whole")
    hub = find_registry("hub://digits/3")

    assert (hub.keeps_versions_apart, hub.has_proposals) == (True, True)
    assert hub.propose(None, name="digits", tags={}, alias="honed").note == "Accept it there."
    with pytest.raises(HoneError, match="no best") as caught:
        check_names(hub, name=None, alias="best")
    assert caught.value.slug == "recipe-invalid"
    assert hub.find_source("hub:/digits") == "hub:/digits/1"
    infos, cursor, skipped = hub.versions_since(None)
    assert ([info.version for info in infos], cursor, skipped) == (["3"], "3", {"hub:/digits/2": "gone"})
    assert aliases.read_aliases(hub, "digits") == {"digits": {"honed": "3"}}
    assert aliases.find_published(hub, "digits", "honed") == "hub:/digits/3"
    hub.move_alias("hub:/digits/3", "honed")
    assert hub.moved == [("hub:/digits/3", "honed")]


INFO = {"uri": "hub:/digits/3", "name": "digits", "version": "3"}


@pytest.mark.parametrize("name", ["resolve", "versions_since", "publish"])
@pytest.mark.parametrize(
    ("change", "clue"),
    [
        ({"uri": "models:/elsewhere/9"}, "'models:/elsewhere/9' is not a URI of the scheme hub"),
        ({"uri": ""}, "'' is not a URI of the scheme hub"),
        ({"uri": "//[x"}, "Invalid IPv6 URL"),
        ({"version": ""}, "the version is empty"),
        ({"name": ""}, "the name is empty"),
    ],
)
def test_what_a_method_returns_is_of_its_own_registry_and_has_a_name(site, name, change, clue):
    if name == "publish" and "name" in change:
        return  # a publication has none
    (site / "fake_hub.py").write_text(
        "from hone_runtime.contract.registry import NewVersions, Publication, Registry, VersionInfo\n"
        f"INFO = {INFO | change!r}\n"
        "class Hub(Registry):\n"
        "    def resolve(self, uri): return VersionInfo(**INFO)\n"
        "    def pull(self, uri, folder): return self.resolve(uri)\n"
        "    def versions_since(self, cursor): return NewVersions((self.resolve(''),), '3')\n"
        "    def publish(self, winner, *, name, tags, alias, metrics=None):\n"
        "        return Publication(uri=INFO['uri'], version=INFO['version'], alias=alias)\n"
    )
    install(site, "hub", "Hub", "fake_hub:Hub")

    error = catch(lambda: CALLS[name](find_registry("hub://digits/3")))

    assert error.slug == "registry-broken"
    assert clue in error.why


@pytest.mark.parametrize(
    "value",
    [
        "('nonsense', 1, 2, 3)",
        "((), None)",
        "New((), None)",
        "New(('hub:/digits/3',), '3')",
        "New([], '3')",
        "New((), '3', {'hub:/a': 1})",
    ],
)
def test_new_versions_are_versions_a_cursor_and_reasons(site, value):
    body = "".join(f"    def {one}(self, *rest, **named):\n        return {value}\n" for one in CALLS)
    head = "from hone_runtime.contract.registry import NewVersions as New, Registry\n"
    (site / "fake_hub.py").write_text(f"{head}class Hub(Registry):\n{body}")
    install(site, "hub", "hub", "fake_hub:Hub")
    assert catch(lambda: find_registry("hub://x").versions_since(None)).slug == "registry-broken"


def test_what_is_no_uri_is_served_by_none():
    assert catch(lambda: find_registry("//[x")).slug == "registry-unknown"


def make_winner(folder: Path):
    return prove(folder, Artifact(format="onnx", digest="sha256:3", inputs=(), outputs=()), "7")


def test_tags_say_what_was_proved(tmp_path):
    assert make_tags(make_winner(tmp_path), recipe="sha256:2", speedup=2.34567, data={"gate": "md5"}) == {
        "hone.source": SOURCE_URI,
        "hone.source_digest": SOURCE_DIGEST,
        "hone.digest": "sha256:3",
        "hone.recipe": "sha256:2",
        "hone.run": "7",
        "hone.verdict": "PASS",
        "hone.speedup": "2.346",
        "hone.data.gate": "md5",
    }
    assert "hone.speedup" not in make_tags(make_winner(tmp_path), recipe="sha256:2")


def test_a_tag_says_that_the_network_is_another_one(tmp_path):
    trained = Artifact(
        format="onnx", digest="sha256:3", inputs=(), outputs=(), metadata={"trained": {"compress.distil": {}}}
    )
    tags = make_tags(prove(tmp_path, trained, "7"), recipe="sha256:2")
    assert tags["hone.source_changed"] == "weights"


def test_a_version_with_our_tags_is_optimized_and_no_other(tmp_path):
    version = VersionInfo(uri="models:/digits/4", name="digits", version="4", tags={"hone.note": "mine"})
    assert not version.is_optimized
    tags = make_tags(make_winner(tmp_path), recipe="sha256:2")
    assert version.model_copy(update={"tags": tags}).is_optimized


@pytest.mark.parametrize(
    ("known", "why", "hint"),
    [
        (["digits", "words"], "There are the models digits, words.", "Did you mean 'digits'?"),
        (["words"], "There are the models words.", "Choose one of these."),
        ([], "There are no models.", "Register one first."),
    ],
)
def test_an_unknown_name_is_explained_by_those_that_there_are(known, why, hint):
    error = explain_unknown("model-unknown", "There is no digit.", "digit", known, "models")
    assert (error.slug, error.why, error.hint) == ("model-unknown", why, hint)


def test_a_registry_that_skips_nothing_leaves_the_reasons_out(site):
    text = f"{WHOLE}\nWhole.versions_since = lambda self, cursor: NewVersions((INFO,), '3')\n"
    (site / "fake_hub.py").write_text(text)
    install(site, "hub", "hub", "fake_hub:Whole")
    assert find_registry("hub://digits/3").versions_since(None).skipped == {}


def test_a_package_that_returns_one_registry_again_and_again_is_guarded_once(site):
    (site / "fake_hub.py").write_text(f"{MINIMAL}\nONE = Minimal()\ndef find():\n    return ONE\n")
    install(site, "hub", "hub", "fake_hub:find")
    methods = [find_registry("hub://digits/3").resolve for _ in range(2)]
    assert methods[0] is methods[1]


@pytest.mark.parametrize("value", ["[]", "{'honed': 3}", "{'honed': None}"])
def test_aliases_of_a_strangers_registry_are_names_and_versions(site, value):
    (site / "fake_hub.py").write_text(f"{MODULE}\nRemote.list_aliases = lambda self, name: {value}\n")
    install(site, "hub", "hub", "fake_hub:Remote")
    assert catch(lambda: aliases.read_aliases(find_registry("hub://x"), "x")).slug == "registry-broken"


def test_why_a_version_is_skipped_is_one_line_without_secrets():
    denied = HoneError("registry-denied", "The Hub denies access.", why="No token.", hint="Set one.")
    assert explain_skipped(denied) == "The Hub denies access. No token."
    assert "abcdefgh12345678" not in explain_skipped(OSError("no such device: token=abcdefgh12345678"))
