"""Processes of toolchains: ``host`` runs in our process, ``guard`` in the guard's, ``inside`` in the toolchain's."""
