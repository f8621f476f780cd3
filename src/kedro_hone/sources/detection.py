"""Detects the source format of a pulled folder. Reads names and YAML; runs nothing."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.plugins import BUILT_IN, Offer, check_kind, describe_exception, guard, locate_function
from hone_runtime.errors import HoneError
from hone_runtime.learner.interfaces import INTERFACES
from hone_runtime.learner.runtimes import explain_native
from hone_runtime.text import open_logger
from hone_runtime.values.base import EVERYTHING
from kedro_hone.sources.catalogue import read_sources
from kedro_hone.sources.files import make_corrupt
from kedro_hone.sources.mlmodel import read_mlmodel
from kedro_hone.sources.source_format import MLMODEL, AuthorClass, Flavor, MlModel, Pulled, SourceFormat
from kedro_hone.sources.wrapped import explain_wrapped

logger = open_logger(__name__)


def read_flavor(
    folder: Path,
    *,
    trust: frozenset[str],
    author: AuthorClass | None = None,
    task: str | None = None,
    signature: str | None = None,
    due: str | None = None,
    uri: str = "",
) -> Flavor:
    """Return the model in a pulled folder (an MLflow model, or a model's file): the source formats are tried in order.

    ``due`` is the digest in the registry for a winner of kedro-hone; ``uri`` is the user's name of the model.

    Raises:
        HoneError: ``native-not-trusted``: it is native code, and ``trust`` has no ``native``.
        HoneError: ``pickle-not-trusted``, ``model-unsupported``, ``model-corrupt``, ``recipe-invalid`` if the recipe
            has a class but the model takes none, ``source-format-broken``, or ``model-external-data`` if a link leads
            out of the folder.
    """
    pulled = open_pulled(folder, trust=trust, author=author, task=task, signature=signature, due=due)
    if found := _find_source(pulled):
        return _complete(*found, pulled)
    raise explain_wrapped(pulled, _name_part) or _explain_unknown(pulled, called=uri or folder.name)


def open_pulled(
    folder: Path,
    *,
    trust: frozenset[str] = frozenset(),
    author: AuthorClass | None = None,
    task: str | None = None,
    signature: str | None = None,
    due: str | None = None,
) -> Pulled:
    """Return the input of source formats: a folder with its ``MLmodel``; arguments are those of ``Pulled``.

    Raises:
        HoneError: ``model-external-data``: a link leads out of the folder; ``model-corrupt``: the ``MLmodel`` cannot
            be read.
    """
    _refuse_links_out(folder)
    mlmodel = read_mlmodel(folder / MLMODEL) if (folder / MLMODEL).is_file() else None
    return Pulled(folder=folder, mlmodel=mlmodel, due=due, author=author, trust=trust, task=task, signature=signature)


def _find_source(pulled: Pulled) -> tuple[SourceFormat, Flavor] | None:
    """Return the first source format that recognises a folder, with its result; None if absent."""
    sources, broken = read_sources()
    for place, error in broken.items():
        logger.warning("the source format of %s cannot be imported: %s", place, describe_exception(error))
    for source, offer in sources.values():
        found = _detect(source, pulled, offer)
        if found is not None:
            _check_taken(source, found, pulled, trust=pulled.trust)
            return source, found
    return None


def _name_part(folder: Path) -> str | None:
    """Return a folder's model that a run would take, with the trust that it needs; None if it is not a model.

    Detection runs nothing, whatever is trusted.
    """
    found = _recognise(folder, trust=EVERYTHING)
    if found is None:
        return None
    if _recognise(folder, trust=frozenset()) is not None:
        return found.noun
    needed = [one for one in sorted(EVERYTHING) if _recognise(folder, trust=EVERYTHING - {one}) is None]
    return f"{found.noun} (which needs `hone.trust: [{', '.join(needed)}]`)" if needed else found.noun


def _recognise(folder: Path, *, trust: frozenset[str]) -> SourceFormat | None:
    """Return the format of a folder's model; None if no format recognises it."""
    try:
        found = _find_source(open_pulled(folder, trust=trust))
    except HoneError:
        return None
    return found and found[0]


def _detect(source: SourceFormat, pulled: Pulled, offer: Offer) -> Flavor | None:
    with guard(
        "source-format-broken",
        f"The source format {source.name} cannot be used.",
        culprit=f"It comes from {offer.origin}, and {locate_function(source.detect)}",
        hint="Correct its function detect, or uninstall its package.",
        ours=offer.origin == BUILT_IN,
    ):
        found = source.detect(pulled)
        if found is not None and check_kind(found, Flavor).format not in (source.seals or {found.format}):
            raise ValueError(f"it found {found.format!r}, which is not in its seals")
    return found


def _check_taken(source: SourceFormat, found: Flavor, pulled: Pulled, *, trust: frozenset[str]) -> None:
    what = f"The model is {source.noun}{f' ({found.files[0][0]})' if found.files else ''}."
    if pulled.author is not None and not source.takes_class:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a class, and the model takes none.",
            why=f"hone.model.module is {pulled.author.place!r}, and the model is {source.noun}.",
            hint="Name a model with the state of that class, an exported program (.pt2) or what "
            "safetensors.torch.save_model(model, 'model.safetensors') writes; or leave hone.model.module out.",
        )
    if source.trust is not None and source.trust not in trust:
        raise HoneError("pickle-not-trusted", what, why=source.untrusted, hint=source.hint)
    if source.trust is None and "native" not in trust and read_catalogue().is_native(found.format):
        raise explain_native(found.format, hint="or add `hone.trust: [native]`")
    if source.unsupported is not None:
        raise HoneError("model-unsupported", what, why=source.unsupported, hint=source.hint)
    if pulled.task is not None and not source.takes_task:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a task, and the model takes none.",
            why=f"hone.model.task is {pulled.task!r}, and the model is {source.noun}.",
            hint="Leave hone.model.task out: it is for models of Transformers only.",
        )
    if pulled.signature is not None and not source.takes_signature:
        raise HoneError(
            "recipe-invalid",
            "The recipe names a signature, and the model has none.",
            why=f"hone.model.signature is {pulled.signature!r}, and the model is {source.noun}.",
            hint="Leave hone.model.signature out: it is for SavedModels of TensorFlow only.",
        )


def _complete(source: SourceFormat, found: Flavor, pulled: Pulled) -> Flavor:
    """Fill in missing values from the format's description and from the signature."""
    interface = found.interface or source.interface
    if interface not in INTERFACES:
        raise make_corrupt(pulled.folder, f"its interface {interface!r} is none of {', '.join(INTERFACES)}")
    mlmodel = pulled.mlmodel or MlModel(flavors={})
    specs = {side: getattr(found, side) or getattr(mlmodel, side) for side in ("inputs", "outputs")}
    return found.model_copy(update={"source": source.name, "interface": interface, **specs})


def _explain_unknown(pulled: Pulled, *, called: str) -> HoneError:
    sources, broken = read_sources()
    taken = [source.noun for source, _ in sources.values() if source.unsupported is None and not source.takes_class]
    supported = f"Supported are {', '.join(taken[:-1])} and {taken[-1]}."
    if broken:
        supported += f" Could not be imported: {', '.join(broken)}."
    if pulled.mlmodel is not None:
        what = "The model is of no flavor that can be optimized."
        why = f"Its MLmodel has: {', '.join(sorted(pulled.mlmodel.flavors)) or 'none'}. {supported}"
        hint = "Log the model with mlflow.onnx.log_model or mlflow.pytorch.log_model."
    else:
        what = f"{called} contains no model that can be optimized."
        names = sorted(path.name for path in pulled.folder.iterdir())
        why = f"It contains: {', '.join(names[:8]) or 'nothing'}. {supported}"
        hint = "Name a folder with model.onnx, model.pt2 or an MLmodel, or one .onnx or .pt2 file."
        if pulled.author is not None:
            hint = (
                "The state of a class is one file, model.pt2 or model.safetensors: save it whole, by torch.export.save "
            )
            hint += "or safetensors.torch.save_model."
        elif any(name.endswith(".safetensors") for name in names):
            hint = "If it is the state of a PyTorch class, name that in hone.model.module; else save the whole model."
    return HoneError("model-unsupported", what, why=why, hint=hint)


def _refuse_links_out(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_symlink() and not _stays_in(folder, path):
            raise HoneError(
                "model-external-data",
                f"{path.relative_to(folder)} is a link that leads out of the model's folder.",
                why="All files of a model must be in its folder.",
                hint="Replace the link by the file.",
            )


def _stays_in(folder: Path, link: Path) -> bool:
    try:
        return link.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # it leads to itself
        return False
