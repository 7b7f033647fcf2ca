"""aclnnMhcPreSinkhornBackward: gradients of MhcPreSinkhorn.

The saved tensors are those of aclnn_mhc_pre_sinkhorn.py for one token. The gradient of hPost is 1:
hPost (1 - hPost / 2) = 3/8 for each of its 4 logits, in gradBias, and 4 * 3/8 = 3/2 in gradAlpha. A
gradient of 1 for the first mixing weight gives 9/64 there, -3/64 in the rest of its row and column
and 1/64 elsewhere, as in aclnn_mhc_sinkhorn_backward.py. Those 16 sum to 0. gradPhi is ln 3 times
gradBias, and gradX 0: the logits do not depend on the scale of x.

    python examples/aclnn_mhc_pre_sinkhorn_backward.py
"""

import math

import torch
from acl_program import filled, run

B, S, N, D = 1, 1, 4, 128
F, STEPS = N * N + 2 * N, 2 * 20


def main():
    grad_h_res = filled(0.0, B, S, N, N)
    grad_h_res[0, 0, 0, 0] = 1.0
    parameters = {
        "gradHin": filled(0.0, B, S, D, dtype=torch.bfloat16),
        "gradHPost": filled(1.0, B, S, N),
        "gradHRes": grad_h_res,
        "x": filled(2.0, B, S, N, D, dtype=torch.bfloat16),
        "phi": filled(1 / (4 * D), F, N * D),
        "alpha": filled(math.log(3), 3),
        "bias": filled(0.0, F),
        "hPre": filled(0.75, B, S, N),
        "hcBeforeNorm": filled(2.0, B, S, F),
        "invRms": filled(0.5, B, S, 1),
        "sumOut": filled(1.0, STEPS, B, S, N),
        "normOut": filled(0.25, STEPS, B, S, N, N),
        "hcEps": 0.0,
        "gradX": filled(0.0, B, S, N, D, dtype=torch.bfloat16),
        "gradPhi": filled(0.0, F, N * D),
        "gradAlpha": filled(0.0, 3),
        "gradBias": filled(0.0, F),
    }
    return run(
        "aclnnMhcPreSinkhornBackward", parameters, ["gradX", "gradPhi", "gradAlpha", "gradBias"]
    )


if __name__ == "__main__":
    main()
