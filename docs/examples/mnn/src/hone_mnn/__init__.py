"""MNN for kedro-hone."""
