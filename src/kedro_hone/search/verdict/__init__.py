"""The gates, what they judge, and the verdict that follows."""
