"""ExecuTorch: PyTorch's runtime for devices, with XNNPACK's kernels."""
