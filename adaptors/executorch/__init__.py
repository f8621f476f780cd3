"""ExecuTorch: PyTorch's runtime for edge devices, with XNNPACK's kernels."""
