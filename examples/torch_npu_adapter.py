"""An adapter of the conformance kit for the operators of torch_npu. Never run on an NPU.

    pip install 'mhc-ops[conformance,npu]'; then, where this file lies:
    MHC_OPS_ADAPTER=torch_npu_adapter:TorchNpu python -m pytest --pyargs mhc_ops.conformance

Names and signatures are the published ones; a test runs this file against a stand-in with them.
"""

import torch
import torch_npu

from mhc_ops.errors import UnsupportedError

DEVICE = "npu"
PRE = ("hin", "h_post", "h_res", "inv_rms", "h_mix", "h_pre")
PRE_BACKWARD = ("grad_x", "grad_phi", "grad_alpha", "grad_bias", "grad_gamma")
POST_BACKWARD = ("grad_x", "grad_h_res", "grad_h_out", "grad_h_post")


class TorchNpu:
    def run(self, op, inputs, attrs, outputs):
        t = {name: None if value is None else value.to(DEVICE) for name, value in inputs.items()}
        numbers = {name: value for name, value in attrs.items() if name.endswith("eps")}
        hf32 = attrs.get("op_impl_mode") == 1
        if op == "MhcPre":
            tensors = (t["x"], t["phi"], t["alpha"], t["bias"])
            more = {"inner_precise": 1} if hf32 else {}  # newer builds alone know the name
            results = torch_npu.npu_mhc_pre(
                *tensors, gamma=t["gamma"], out_flag=1, **numbers, **more
            )
            found = dict(zip(PRE, results, strict=True))
        elif op == "MhcPreBackward" and not hf32:
            named = {name: t.pop(name) for name in ("gamma", "grad_x_post")}
            results = torch_npu.npu_mhc_pre_backward(*t.values(), **named, **numbers)
            found = dict(zip(PRE_BACKWARD, results, strict=True))
        elif op == "MhcPost" and t["h_res"] is not None:
            tensors = (t["x"], t["h_res"], t["h_out"], t["h_post"])
            found = {"y": torch.ops.cann_ops_transformer.mhc_post(*tensors)}
        elif op == "MhcPostBackward":
            results = torch_npu.npu_mhc_post_backward(*t.values())
            found = dict(zip(POST_BACKWARD, results, strict=True))
        else:
            raise UnsupportedError(f"torch_npu has no {op} of this form under a published name")
        return {name: found[name] for name in outputs}
