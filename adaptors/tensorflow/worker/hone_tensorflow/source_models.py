"""Open source models by their format and describe them; models that change their variables in a call are refused."""

from __future__ import annotations

from hone_runtime.worker.refusal import UnsuitedError

from . import assignments, keras_files, lite, models, saved_models

Json = models.Json


def open_model(job: Json) -> models.Model:
    """Open the job's model, of the format ``keras``, ``saved-model`` or ``tflite-file``.

    Raises:
        UnsuitedError: The model is refused.
        KeyError: It is of another format.
    """
    artifact = job["input"]
    match artifact["format"]:
        case "keras":
            return keras_files.open_keras(artifact)
        case "saved-model":
            return saved_models.open_saved(artifact, seed=int(job["seed"]))
        case lite.FORMAT:
            return lite.open_file(job)
    raise KeyError(artifact["format"])


def describe(job: Json) -> Json:
    """Return the tensors of a source model, or why it is refused."""
    try:
        model = open_model(job)
    except UnsuitedError as unsuited:
        return {"refused": str(unsuited), **({"slug": unsuited.slug} if unsuited.slug else {})}
    if assigned := assignments.find_assigned(models.trace(model), model.variables):
        named = ", ".join(assigned[:3])
        return {
            "refused": f"it assigns variables at inference ({named}), so that it remembers its calls",
            "slug": "source-stateful",
        }
    notes = {"keras": model.structure} if model.structure else {}
    return {"inputs": model.inputs, "outputs": model.outputs, **notes}
