"""Processes of toolchains: ``host`` runs in ours, ``guard`` in the guard's, ``inside`` in the toolchain's."""
