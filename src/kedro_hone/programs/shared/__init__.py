"""Code for several programs, which import these modules by ``from ..shared``, or as ``hone_programs.shared``."""
