"""neural-compressor 3 for PyTorch: those of its quantizers that are useful on a CPU."""
