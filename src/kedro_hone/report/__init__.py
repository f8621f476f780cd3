"""The report of a run: ``evidence.json``, the page, the pull-request comment and the console."""
