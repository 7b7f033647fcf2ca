"""mHC-lite: logits over permutations to a doubly stochastic h_res, and its gradient."""
