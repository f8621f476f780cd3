"""The Python part of the GitHub Action: run the pipelines, and report the verdict to a job and a pull request.

``action.yml`` calls ``python -m kedro_hone.github run`` and then ``report``. It needs the extra ``kedro-hone[github]``.
"""
