"""The gates, one module each, which exports ``GATE``. A new file is a new gate; see ``core.gates``."""
