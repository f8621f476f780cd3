"""What the nodes that build candidates share."""
