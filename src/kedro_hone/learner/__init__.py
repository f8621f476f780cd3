"""The former place of ``hone_runtime.learner``: published versions name its module ``pyfunc`` as their loader."""
