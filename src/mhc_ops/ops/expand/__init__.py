"""ExpandStreams: start N residual streams from one."""
