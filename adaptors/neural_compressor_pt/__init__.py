"""neural-compressor 3 for PyTorch: its quantizers that hold up on a CPU."""
