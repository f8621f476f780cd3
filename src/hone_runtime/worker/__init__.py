"""The code that runs in the toolchain's process; imports nothing else of this project."""
