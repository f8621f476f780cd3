"""Torch-TensorRT: exported programs of PyTorch compiled to engines for NVIDIA GPUs, in an interpreter of the user's."""
