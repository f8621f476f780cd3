"""One adaptor run on one artifact in a worker, or its result from the store."""
