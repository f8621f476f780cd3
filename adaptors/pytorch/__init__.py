"""PyTorch: export, int8 by PT2E, TorchScript, ``torch.compile`` and AOTInductor."""
