"""The contract, the stores, the workers and the statistics: all that knows nothing of Kedro."""
