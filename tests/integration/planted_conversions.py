"""Convert a model of Transformers by the real converters, with a fault planted before each; run as a program by a test.

``python planted_conversions.py JOB`` reads what the worker gets, and writes the results of each converter with each
fault to ``OUTPUT/<converter>/<fault>``.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import torch

FAULTS = ("none", "mask", "inputs", "outputs", "length")


class Wrong(torch.nn.Module):
    """A model that is called with a fault."""

    def __init__(self, model, fault: str) -> None:
        super().__init__()
        self.model, self.fault = model, fault
        self.config = model.config
        self.training = False

    def set_attn_implementation(self, name: str) -> None:
        self.model.set_attn_implementation(name)

    def forward(self, input_ids, attention_mask, token_type_ids):
        if self.fault == "mask":
            attention_mask = attention_mask * 0 + 1
        if self.fault == "inputs":
            attention_mask, token_type_ids = token_type_ids, attention_mask
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        first, second = result.start_logits, result.end_logits
        return {"start_logits": second, "end_logits": first} if self.fault == "outputs" else dict(result)


def main(path: Path) -> None:
    asked = json.loads(path.read_text())
    from hone_runtime.worker.packages import import_worker

    worker = import_worker(asked["worker"])
    pretrained = sys.modules["hone_pytorch.pretrained"]
    opened = pretrained.open_model
    for converter, faults in asked["converters"].items():
        for fault in faults:
            job = copy.deepcopy(asked["job"])
            output = Path(asked["output"]) / converter / fault
            output.mkdir(parents=True)
            job |= {"adaptor": converter, "output": str(output), "options": asked["options"].get(converter, {})}
            if converter == "pytorch.onnx":
                exported = Path(asked["output"]) / "pytorch.export" / fault
                job["input"] |= {"path": str(exported), "format": "pytorch"}
            if fault == "length":
                for spec in (*job["input"]["inputs"], *job["input"]["outputs"]):
                    spec["shape"][1] = asked["length"]
            pretrained.open_model = lambda job, fault=fault: Wrong(opened(job), fault)
            notes = worker.transform(job)
            assert not notes.keys() & {"failed", "refused"}, (converter, fault, notes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
