"""The gates, their judgements, and the verdict from them."""
