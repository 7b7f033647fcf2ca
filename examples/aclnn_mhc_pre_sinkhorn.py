"""aclnnMhcPreSinkhorn: gates, sublayer input and mixing weights in one call.

x is 2, so invRms is 1/2; phi is 1 / (4 * D), so hcBeforeNorm is 2 and every normalised logit 1;
alpha is ln 3: hPre is sigmoid(ln 3) = 3/4, hPost 3/2, hin 4 * 3/4 * 2 = 6. The residual logits are
equal, so the weights are 1/4; of the saved iterates normOut is 1/4 and sumOut 1, but 4, the sum of
four exponentials, in its first vector.

    python examples/aclnn_mhc_pre_sinkhorn.py
"""

import math

import torch
from acl_program import filled, run

B, S, N, D = 1, 2, 4, 128
F, STEPS = N * N + 2 * N, 2 * 20


def main():
    parameters = {
        "x": filled(2.0, B, S, N, D, dtype=torch.bfloat16),
        "phi": filled(1 / (4 * D), F, N * D),
        "alpha": filled(math.log(3), 3),
        "bias": filled(0.0, F),
        "hcMult": N,
        "numIters": STEPS // 2,
        "hcEps": 0.0,
        "normEps": 0.0,
        "needBackward": True,
        "hin": filled(0.0, B, S, D, dtype=torch.bfloat16),
        "hPost": filled(0.0, B, S, N),
        "hRes": filled(0.0, B, S, N * N),
        "hPre": filled(0.0, B, S, N),
        "hcBeforeNorm": filled(0.0, B, S, F),
        "invRms": filled(0.0, B, S, 1),
        "sumOut": filled(0.0, STEPS, B, S, N),
        "normOut": filled(0.0, STEPS, B, S, N, N),
    }
    return run("aclnnMhcPreSinkhorn", parameters, list(parameters)[9:])


if __name__ == "__main__":
    main()
