"""aclnnMhcPost: mix the streams and add a sublayer's output.

x is 1, 2, 3, 4 by stream. hRes[from, to] is 1 for `to` 0 and 0 for the others, hOut 2 and hPost
0.5: out is 1 + 2 + 3 + 4 + 0.5 * 2 = 11 in stream 0 and 1 in the others.

    python examples/aclnn_mhc_post.py
"""

import torch
from acl_program import filled, run

T, N, D = 8, 4, 16


def main():
    by_stream = torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None].expand(T, N, D)
    h_res = filled(0.0, T, N, N)
    h_res[..., 0] = 1.0
    parameters = {
        "x": by_stream.bfloat16().contiguous(),
        "hRes": h_res,
        "hOut": filled(2.0, T, D, dtype=torch.bfloat16),
        "hPost": filled(0.5, T, N),
        "out": filled(0.0, T, N, D, dtype=torch.bfloat16),
    }
    return run("aclnnMhcPost", parameters, ["out"])


if __name__ == "__main__":
    main()
