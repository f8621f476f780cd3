"""The hooks that tie a Kedro run to its recipe, its progress and its verdict."""
