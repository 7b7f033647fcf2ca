"""aclnnMhcPostBackward: gradients of MhcPost.

gradOutput is 1, 2, 3, 4 by stream, D is 16, everything else constant: gradX is 0.25 * 10 = 2.5;
gradHres[from, to] is 16 * 2 * (to + 1), so 32, 64, 96, 128; gradHout is 0.5 * 10 = 5; gradHpost
is 16 * 3 * (stream + 1), so 48, 96, 144, 192.

    python examples/aclnn_mhc_post_backward.py
"""

import torch
from acl_program import filled, run

T, N, D = 8, 4, 16


def main():
    by_stream = torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None].expand(T, N, D)
    parameters = {
        "gradOutput": by_stream.bfloat16().contiguous(),
        "x": filled(2.0, T, N, D, dtype=torch.bfloat16),
        "hRes": filled(0.25, T, N, N),
        "hOut": filled(3.0, T, D, dtype=torch.bfloat16),
        "hPost": filled(0.5, T, N),
        "gradX": filled(0.0, T, N, D, dtype=torch.bfloat16),
        "gradHres": filled(0.0, T, N, N),
        "gradHout": filled(0.0, T, D, dtype=torch.bfloat16),
        "gradHpost": filled(0.0, T, N),
    }
    return run("aclnnMhcPostBackward", parameters, ["gradX", "gradHres", "gradHout", "gradHpost"])


if __name__ == "__main__":
    main()
