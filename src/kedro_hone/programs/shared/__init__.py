"""What several programs use. A program imports these modules by ``from ..shared``, or as ``hone_programs.shared``."""
