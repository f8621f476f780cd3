"""What runs in the toolchain's process; imports nothing of this project."""
