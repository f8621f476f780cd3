"""The toolchains: one folder each, with its adaptors, its worker and its environment."""
