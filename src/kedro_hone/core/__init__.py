"""The contract, the stores, the workers and the statistics: everything that does not depend on Kedro."""
