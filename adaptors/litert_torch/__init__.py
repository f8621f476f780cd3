"""LiteRT Torch: convert exported programs of PyTorch to LiteRT models."""
