"""StreamHead: contract N residual streams into one."""
