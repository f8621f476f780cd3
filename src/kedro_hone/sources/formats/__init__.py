"""The built-in source formats: each module in this folder exports one as ``SOURCE_FORMAT``."""
