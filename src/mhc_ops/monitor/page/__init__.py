"""The page of a run, built from mhc_ops.page."""
