"""Starts workers and reads their results; runs in the process of ``kedro run``."""
