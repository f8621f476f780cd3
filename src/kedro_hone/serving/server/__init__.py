"""The process that serves winners by KServe's SDK, in an environment of its own.

Its modules import ``hone_runtime``, KServe and each other; of ``kedro_hone`` nothing else is there.
"""
