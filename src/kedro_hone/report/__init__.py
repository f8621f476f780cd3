"""The report of a run: ``evidence.json``, its view, and the page, comment, console and description made from it."""
