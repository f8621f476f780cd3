"""Everything stored on the disk: artifacts, results of steps, values, and the folders of a run."""
