"""What the nodes that compare candidates share: the setting, predictions, scores and evidence."""
