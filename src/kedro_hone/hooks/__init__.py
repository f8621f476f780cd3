"""The hooks that connect a Kedro run with its recipe, its progress display and its verdict."""
