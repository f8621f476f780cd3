"""Everything statistical, as pure functions: numbers in, intervals and verdicts out.

Measuring and judging are separate: nothing here starts a process, reads a clock or draws a random number. A
``confidence`` is a two-sided level, such as 0.95, strictly between 0 and 1: any other raises a ``ValueError``. The
promised error rates are measured by ``benchmarks/error_rates.py`` and tested by
``tests/unit/core/stats/test_error_rates.py``.
"""
