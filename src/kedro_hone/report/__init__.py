"""The report of a run: ``evidence.json``, its view, and the page, comment, console text and description from it."""
