"""Sinkhorn: residual logits to a doubly stochastic h_res, and its gradient."""
