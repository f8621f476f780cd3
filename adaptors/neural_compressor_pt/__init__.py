"""neural-compressor 3 for PyTorch: its quantizers on exported programs."""
