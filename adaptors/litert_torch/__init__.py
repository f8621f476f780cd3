"""LiteRT Torch: exported programs of PyTorch become models of LiteRT."""
