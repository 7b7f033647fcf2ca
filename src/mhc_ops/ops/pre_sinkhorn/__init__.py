"""MhcPreSinkhorn: MhcPre and the Sinkhorn of its logits in one operator."""
