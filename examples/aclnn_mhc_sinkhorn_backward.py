"""aclnnMhcSinkhornBackward: gradient of the logits from what the forward saved.

The saved weights of one iteration are all 1/4, with sums of 1, as for equal logits and eps 0. From
a gradient of 1 in entry (0, 0) and 0 elsewhere, the mean over the column is taken, then that over
the row, and a quarter remains: 9/64 there, -3/64 in the rest of its row and column, else 1/64.

    python examples/aclnn_mhc_sinkhorn_backward.py
"""

from acl_program import filled, run

T, N, NUM_ITERS = 1, 4, 1


def main():
    grad_output = filled(0.0, T, N, N)
    grad_output[0, 0, 0] = 1.0
    parameters = {
        "gradOutput": grad_output,
        "normOut": filled(0.25, 2 * NUM_ITERS * T * N * 8),
        "sumOut": filled(1.0, 2 * NUM_ITERS * T * 8),
        "out": filled(0.0, T, N, N),
    }
    return run("aclnnMhcSinkhornBackward", parameters, ["out"])


if __name__ == "__main__":
    main()
