"""Save models of Transformers as MLflow does, and as a repository in parts; run as a program by the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CLASSES = {
    "classifier": ("text-classification", "AutoModelForSequenceClassification"),
    "causal": ("text-generation", "AutoModelForCausalLM"),
    "image": ("image-classification", "AutoModelForImageClassification"),
    "speech": ("automatic-speech-recognition", "AutoModelForCTC"),
}


def main(folder: Path, flavors: Path, shards: Path, kinds: list[str]) -> None:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import mlflow
    import transformers as t

    for kind in kinds:
        task, name = CLASSES[kind]
        model = getattr(t, name).from_pretrained(folder / kind)
        if kind == "image":
            parts = {"image_processor": t.AutoImageProcessor.from_pretrained(folder / kind)}
        elif kind == "speech":
            processor = t.AutoProcessor.from_pretrained(folder / kind)
            parts = {"tokenizer": processor.tokenizer, "feature_extractor": processor.feature_extractor}
        else:
            parts = {"tokenizer": t.AutoTokenizer.from_pretrained(folder / kind)}
        line = t.pipeline(task, model=model, **parts)
        mlflow.transformers.save_model(line, str(flavors / kind), pip_requirements=["torch"])
        model.save_pretrained(shards / kind, max_shard_size="40KB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), sys.argv[4:])
