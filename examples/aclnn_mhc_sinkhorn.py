"""aclnnMhcSinkhorn: residual logits to mixing weights.

All logits are equal and eps is 1/4: an entry is 1/4 after the softmax, 1/2 with eps, then 2/9 after
the columns, 8/41 after the rows and 32/169 = 0.189349 after the columns again. normOut holds the
four matrices, 1/4 without eps first, in rows of 8 of which N are used; sumOut the sums that divided
them, from the second on: 9/4, 41/36, 169/164.

    python examples/aclnn_mhc_sinkhorn.py
"""

from acl_program import filled, run

T, N, NUM_ITERS = 2, 4, 2


def main():
    parameters = {
        "x": filled(3.0, T, N, N),
        "eps": 0.25,
        "numIters": NUM_ITERS,
        "output": filled(0.0, T, N, N),
        "normOut": filled(0.0, 2 * NUM_ITERS * T * N * 8),
        "sumOut": filled(0.0, 2 * NUM_ITERS * T * 8),
    }
    return run("aclnnMhcSinkhorn", parameters, ["output", "normOut", "sumOut"])


if __name__ == "__main__":
    main()
