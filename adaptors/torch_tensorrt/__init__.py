"""Torch-TensorRT: exported programs compiled to engines for NVIDIA GPUs, in an interpreter that the user provides."""
