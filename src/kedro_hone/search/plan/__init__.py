"""How a search uses its time: routes, their expected times, and the budget."""
