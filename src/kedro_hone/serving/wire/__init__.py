"""A winner and its source, each behind the same server, compared by what clients measure."""
