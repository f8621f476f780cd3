"""A toolchain of our own that needs numpy only: for tests of everything around toolchains."""
