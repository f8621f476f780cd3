"""What a search does with its time: routes, what they are expected to take, and the budget."""
