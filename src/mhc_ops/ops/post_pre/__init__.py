"""The boundary of two sublayers: MhcPost of one, and MhcPre and Sinkhorn of the next."""
