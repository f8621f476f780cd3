"""IREE: an MLIR compiler and its runtime, for models in fp32."""
