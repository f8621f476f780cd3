"""LiteRT, formerly TensorFlow Lite: its runtime with XNNPACK's kernels, and three ways to int8."""
