"""Round trips bit for bit, folding, names, and every refusal by its text."""

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhc_ops import Convention
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError
from mhc_ops.integrations.checkpoints import LAYOUTS, convert_state_dict, find_layout

from .libraries import LIBRARIES, D, N, draw

WRITTEN = [name for name, layout in LAYOUTS.items() if not layout.reads_only]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    same = a.dtype == b.dtype and a.shape == b.shape
    return same and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name in want:
        assert same_bits(got[name], want[name]), name


def any_bits(*shape: int, dtype=torch.float32) -> torch.Tensor:
    """All kinds of bit patterns: NaN payloads, infinities, subnormals."""
    size = math.prod(shape) * dtype.itemsize
    return torch.randint(0, 256, (size,), dtype=torch.uint8).view(dtype).reshape(shape)


def ours(n=N, d=D, form=3, gamma=False, head=False, residual=None, dtype=torch.float32):
    """A state_dict with one hyper-connection of ours, and a stranger."""
    residual = (n * n if residual is None else residual) if form == 3 else 0
    rows = 2 * n + residual
    tensors = {
        "layers.0.attn_hc.phi": any_bits(rows, n * d, dtype=dtype),
        "layers.0.attn_hc.alpha": any_bits(form, dtype=dtype),
        "layers.0.attn_hc.bias": any_bits(rows, dtype=dtype),
        "layers.0.attn.bias": any_bits(7, dtype=torch.bfloat16),
    }
    if gamma:
        tensors["layers.0.attn_hc.gamma"] = any_bits(n, d, dtype=dtype)
    if head:
        tensors["hc_head.fn"] = any_bits(n, n * d, dtype=dtype)
        tensors["hc_head.scale"] = any_bits(1, dtype=dtype)
        tensors["hc_head.base"] = any_bits(n, dtype=dtype)
    return tensors


@given(
    n=st.integers(1, 6),
    d=st.integers(1, 9),
    gamma=st.booleans(),
    head=st.booleans(),
    name=st.sampled_from(WRITTEN),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
)
def test_round_trip_is_bitwise(n, d, gamma, head, name, dtype):
    layout = LAYOUTS[name]
    form = max(layout.forms)
    gamma, head = gamma and layout.gamma is not None, head and layout.head is not None
    tensors = ours(n, d, form, gamma, head, dtype=dtype)
    convention = replace(layout.forms[form].convention, res_rows="from_to")
    there = convert_state_dict(tensors, source="ours", target=name, convention=convention)
    assert not there.changed
    back = convert_state_dict(
        there.tensors, source=name, target="ours", convention=there.convention
    )
    assert_same(back.tensors, tensors)
    assert back.convention == convention


@pytest.mark.parametrize("name", LIBRARIES)
def test_round_trip_from_the_library(name):
    library = LIBRARIES[name]
    tensors = {key: any_bits(*shape) for key, shape in library.shapes().items()}
    there = convert_state_dict(tensors, source=name, target="ours")
    back = convert_state_dict(
        there.tensors, source="ours", target=name, convention=there.convention
    )
    assert_same(back.tensors, tensors)
    assert back.convention == LAYOUTS[name].forms[3 if name != "hy_v4" else 2].convention


def test_the_index_of_every_permutation():
    """The three that move numbers, element by element."""
    tensors = ours(3, 5, gamma=True)
    phi, bias = tensors["layers.0.attn_hc.phi"], tensors["layers.0.attn_hc.bias"]
    te = convert_state_dict(
        tensors, source="ours", target="transformer_engine", accept_mismatch=True
    ).tensors
    plain = {k: t for k, t in tensors.items() if not k.endswith("gamma")}
    mc, lg = (
        convert_state_dict(plain, source="ours", target=name, accept_mismatch=True).tensors
        for name in ("megatron_main", "liger")
    )
    for i in range(3):
        for d in range(5):
            column = te["layers.0.attn_hc.phi"][:, d * 3 + i]
            assert same_bits(column.contiguous(), phi[:, i * 5 + d].contiguous())
            gain = te["layers.0.attn_hc.norm_weight"][d * 3 + i]
            assert same_bits(gain, tensors["layers.0.attn_hc.gamma"][i, d])
        for j in range(3):
            row, to_from = 6 + i * 3 + j, 6 + j * 3 + i
            weight = mc["layers.0.attn_hc.mapping_proj.weight"]
            assert same_bits(weight[to_from], phi[row])
            assert same_bits(mc["layers.0.attn_hc.bias"][to_from], bias[row])
            assert same_bits(lg["layers.0.attn_hc.phi"][:, to_from].contiguous(), phi[row])
    assert same_bits(te["layers.0.attn_hc.beta"], bias[None])
    alpha = tensors["layers.0.attn_hc.alpha"]
    for k, part in enumerate(("alpha_pre", "alpha_post", "alpha_res")):
        assert same_bits(mc[f"layers.0.attn_hc.{part}"], alpha[k : k + 1])
        assert same_bits(lg[f"layers.0.attn_hc.{part}"], alpha[k])


@pytest.mark.parametrize("n", [3, 4])
def test_permutation_form_keeps_its_rows(n):
    """N! rows are in lexicographic order in whatever convention: nothing is transposed."""
    tensors = ours(n, residual=math.factorial(n))
    convention = replace(Convention(), res_rows="to_from")
    done = convert_state_dict(tensors, source="ours", target="cann", convention=convention)
    assert_same(done.tensors, tensors)


def test_ours_with_rows_to_from_become_from_to():
    """A model trained under Convention.megatron() in mhc_ops itself."""
    tensors = ours()
    done = convert_state_dict(
        tensors, source="ours", target="ours", convention=Convention.megatron()
    )
    assert done.convention == replace(Convention.megatron(), res_rows="from_to")
    there = convert_state_dict(
        tensors, source="ours", target="megatron_main", convention=Convention.megatron()
    )
    assert same_bits(
        there.tensors["layers.0.attn_hc.mapping_proj.weight"], tensors["layers.0.attn_hc.phi"]
    )
    assert not same_bits(done.tensors["layers.0.attn_hc.phi"], tensors["layers.0.attn_hc.phi"])


def test_folding_rounds_each_product_once():
    tensors = ours(gamma=True)
    for name in tensors:
        tensors[name] = torch.randn(tensors[name].shape)
    done = convert_state_dict(tensors, source="ours", target="deepseek", gamma="fold").tensors
    exact = tensors["layers.0.attn_hc.phi"].double() * tensors[
        "layers.0.attn_hc.gamma"
    ].double().reshape(-1)
    assert same_bits(done["layers.0.hc_attn_fn"], exact.float())
    assert "layers.0.attn_hc.gamma" not in done


def test_sixteen_bits_become_float32():
    tensors = ours(dtype=torch.bfloat16)
    done = convert_state_dict(tensors, source="ours", target="deepseek", float32=True).tensors
    assert same_bits(done["layers.0.hc_attn_fn"], tensors["layers.0.attn_hc.phi"].float())
    assert done["layers.0.attn.bias"] is tensors["layers.0.attn.bias"]


def test_names_of_raw_hy_v4_with_and_without_their_infix():
    tensors = draw(LIBRARIES["hy_v4"], 1)
    infixed = {k.replace(".hc_", ".hc_pre.hc_"): t for k, t in tensors.items()}
    a = convert_state_dict(tensors, source="hy_v4", target="transformers")
    b = convert_state_dict(infixed, source="hy_v4", target="transformers")
    assert_same(a.tensors, b.tensors)
    assert a.convention == Convention.hy_v4()
    assert sorted(a.tensors) == ["attn_hc.base", "attn_hc.fn", "attn_hc.scale"]


def test_head_of_tilekernels_is_told_by_its_scale():
    tensors = ours(head=True)
    there = convert_state_dict(tensors, source="ours", target="tilekernels").tensors
    assert there["hc_head.mhc_fn"] is not None
    head = {k.replace("hc_head", "end"): t for k, t in there.items()}
    back = convert_state_dict(
        head, source="tilekernels", target="ours", convention=Convention()
    ).tensors
    assert_same({k.replace("end", "hc_head"): t for k, t in back.items()}, tensors)


def test_a_checkpoint_of_heads_alone():
    tensors = {k: t for k, t in ours(head=True).items() if k.startswith("hc_head")}
    numbers = {"post_scale": 1.5, "order": "rows_last"}  # of no meaning for a head
    there = convert_state_dict(tensors, source="ours", target="hy_v4", numbers=numbers)
    assert sorted(there.tensors) == [f"hc_head.hc_head_{name}" for name in ("base", "fn", "scale")]
    back = convert_state_dict(there.tensors, source="hy_v4", target="deepseek").tensors
    assert same_bits(back["hc_head_fn"], tensors["hc_head.fn"])
    with pytest.raises(ArgumentError, match=r"norm_eps_outside True \(there False\)"):
        convert_state_dict(
            tensors, source="ours", target="deepseek", numbers={"norm_eps_outside": True}
        )


def test_kept_heads_are_handed_on():
    tensors = ours(head=True)
    done = convert_state_dict(
        tensors, source="ours", target="liger", accept_mismatch=True, keep_heads=True
    ).tensors
    for name in ("fn", "scale", "base"):
        assert done[f"hc_head.{name}"] is tensors[f"hc_head.{name}"]
    assert "layers.0.attn_hc.b" in done


def test_prefixes_are_renamed():
    tensors = {
        f"decoder.layers.{k}.mlp_hyper.{name}": t
        for k in range(2)
        for name, t in draw(LIBRARIES["megatron_dev"], 1).items()
    }
    done = convert_state_dict(
        tensors,
        source="megatron_dev",
        target="deepseek",
        accept_mismatch=True,
        rename=[("^decoder", "model"), ("mlp_hyper$", "ffn_hc")],
    )
    assert "model.layers.1.hc_ffn_fn" in done.tensors
    assert done.changed == {"norm_eps_outside": True}
    assert done.convention == Convention.deepseek_v4()


def test_plain_modules_are_no_hyper_connections():
    """alpha and bias of a module without phi, scale and base without fn."""
    strangers = {"norm.alpha": any_bits(3), "norm.bias": any_bits(3), "rope.scale": any_bits(1)}
    done = convert_state_dict({**ours(), **strangers}, source="ours", target="deepseek").tensors
    assert all(done[name] is t for name, t in strangers.items())


CONVENTION = {f.name: f.default for f in fields(Convention)}


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("megatron_main", r"norm_eps_outside False \(there True\), hc_eps 1e-06 \(there 0.0\), "),
        ("megatron_dev", r"Megatron-LM dev has no exact counterpart of norm_eps_outside False "),
        ("liger", r"order columns_last \(there rows_last\)"),
        ("transformer_engine", r"norm_eps 1e-06 .*eps_mode add \(there none\)"),
    ],
)
def test_numbers_without_a_counterpart_are_refused(target, text):
    with pytest.raises(ArgumentError, match=text):
        convert_state_dict(ours(), source="ours", target=target)
    done = convert_state_dict(ours(), source="ours", target=target, accept_mismatch=True)
    assert done.changed
    for name, value in done.changed.items():
        assert value == CONVENTION[name]
        assert getattr(done.convention, name) == getattr(LAYOUTS[target].forms[3].convention, name)
        assert getattr(done.convention, name) != value


def test_tied_numbers_are_refused_apart():
    convention = replace(Convention(), hc_eps=1e-5)
    with pytest.raises(ArgumentError, match=r"sinkhorn_eps 1e-06 \(there 1e-05\)"):
        convert_state_dict(ours(), source="ours", target="deepseek", convention=convention)
    both = replace(convention, sinkhorn_eps=1e-5, num_iters=7, norm_eps=1e-5)
    done = convert_state_dict(ours(), source="ours", target="deepseek", convention=both)
    assert done.convention == both


def test_an_idle_eps_is_no_mismatch():
    """TransformerEngine's eps_mode none, said with another idle eps."""
    convention = replace(Convention.transformer_engine(), sinkhorn_eps=1e-6)
    done = convert_state_dict(
        ours(), source="ours", target="transformer_engine", convention=convention
    )
    assert not done.changed


def test_tilekernels_multiplier_is_written_down():
    tensors = draw(LIBRARIES["tilekernels"], 1)
    default = convert_state_dict(tensors, source="tilekernels", target="ours").convention
    assert (default.post_scale, default.num_iters) == (1.0, 10)
    with pytest.raises(ArgumentError, match=r"post_scale 1.0 \(there 2.0\)"):
        convert_state_dict(
            tensors, source="tilekernels", target="transformer_engine", convention=default
        )


REFUSED = {
    "gamma": (
        ours(gamma=True),
        {"target": "deepseek"},
        "layers.0.attn_hc: raw DeepSeek-V4 has no gamma; fold it into phi with gamma='fold'",
    ),
    "unfold": (ours(), {"target": "cann", "gamma": "unfold"}, "gamma cannot be unfolded"),
    "gamma's word": (ours(), {"target": "cann", "gamma": "drop"}, "gamma must be 'keep' or 'fold'"),
    "head": (ours(head=True), {"target": "cann"}, "hc_head: CANN .* keep_heads=True"),
    "no residual": (ours(form=2), {"target": "liger"}, "Liger-Kernel has an alpha of 3 entries"),
    "residual": (ours(), {"target": "hy_v4"}, "raw HY-V4 has an alpha of 2 entries, .* has 3"),
    "permutations": (
        ours(residual=24, n=4),
        {"target": "deepseek"},
        "permutation form .* raw DeepSeek-V4 does not have",
    ),
    "layout": (ours(), {"target": "megatron"}, "no layout is called 'megatron'; did you mean mega"),
    "reads only": (ours(), {"target": "mhc_mlx"}, "mhc_mlx is a layout to convert from"),
    "none there": ({"w.weight": any_bits(3)}, {"target": "cann"}, "no hyper-connection in the lay"),
    "convention": (
        ours(),
        {"target": "cann", "convention": "megatron"},
        "convention must be a Convention",
    ),
    "rename": (ours(), {"target": "cann", "rename": [("(", "")]}, "no regular expression"),
    "lacking": (
        {k: t for k, t in ours().items() if not k.endswith("alpha")},
        {"target": "cann"},
        "phi is a hyper-connection's in the layout ours, but layers.0.attn_hc.alpha is missing",
    ),
    "site": (
        {k.replace("attn_hc", "mixer"): t for k, t in ours().items()},
        {"target": "deepseek"},
        "layers.0.mixer: the layout deepseek has its hyper-connections at attn_hc and ffn_hc; .*re",
    ),
    "two forms": (
        {**ours(), **{k.replace(".0.", ".1."): t for k, t in ours(form=2).items()}},
        {"target": "cann"},
        "layers.0.attn_hc has the residual part 'matrix' and layers.1.attn_hc 'none'",
    ),
    "same name": (
        {**ours(), "layers.0.hc_attn_fn": any_bits(1)},
        {"target": "deepseek"},
        "two tensors would be called layers.0.hc_attn_fn",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    tensors, arguments, text = REFUSED[case]
    with pytest.raises(ArgumentError, match=text):
        convert_state_dict(tensors, source="ours", **arguments)


def test_a_contradicting_convention_is_refused():
    tensors = draw(LIBRARIES["liger"], 1)
    with pytest.raises(ArgumentError, match="Liger-Kernel has order rows_last, which the conventi"):
        convert_state_dict(
            tensors,
            source="liger",
            target="ours",
            convention=replace(Convention.liger(), order="columns_last"),
        )


def test_a_telling_tensor_alone_is_refused():
    tensors = {**draw(LIBRARIES["deepseek"], 1), "layers.7.hc_ffn_base": any_bits(24)}
    with pytest.raises(ArgumentError, match=r"layers\.7\.hc_ffn_fn is missing beside it"):
        convert_state_dict(tensors, source="deepseek", target="ours")


SHAPES = {
    "phi": ((23, N * D), "phi must be"),
    "phi's columns": ((24, N * D + 1), "phi must be"),
    "phi's rank": ((24, N, D), "two dimensions"),
    "bias": ((25,), "25 rows and an alpha of 3 fit no number of streams"),
    "bias' rank": ((1, 24), r"bias must be \[F\], got \[1, 24\]"),
    "alpha": ((4,), "has an alpha of 3 or 2 entries, this one has 4"),
    "alpha's rank": ((1, 3), "alpha must have one dimension"),
    "gamma": ((N, D + 1), "gamma must hold N\\*D"),
    "gamma's rank": ((N * D,), r"gamma must be \[N, D\]"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_wrong_shapes(case):
    shape, text = SHAPES[case]
    name = f"layers.0.attn_hc.{case.partition(chr(39))[0]}"
    with pytest.raises(ArgumentError, match=text) as caught:
        convert_state_dict(
            {**ours(gamma=True), name: any_bits(*shape)}, source="ours", target="cann"
        )
    assert isinstance(caught.value, ShapeError) or "alpha" in case


def test_wrong_dtypes():
    whole = {**ours(), "layers.0.attn_hc.bias": torch.zeros(24, dtype=torch.int32)}
    with pytest.raises(DtypeError, match="floating point"):
        convert_state_dict(whole, source="ours", target="cann")
    mlx = {f"H_{name}_raw": torch.zeros(()) for name in ("pre", "post", "res")}
    with pytest.raises(ShapeError, match=r"^the hyper-connection: H_pre_raw, .* must be \[N\]"):
        convert_state_dict({**mlx, "rms_weight": torch.zeros(3)}, source="mhc_mlx", target="ours")
    mixed = draw(LIBRARIES["liger"], 1)
    mixed["alpha_post"] = mixed["alpha_post"].half()
    with pytest.raises(DtypeError, match="three alphas must share a dtype"):
        convert_state_dict(mixed, source="liger", target="ours")


def test_layouts_by_name():
    assert find_layout("Megatron-Main") is LAYOUTS["megatron_main"]
    assert find_layout(LAYOUTS["ours"]) is LAYOUTS["ours"]
    assert all(layout.name == name for name, layout in LAYOUTS.items())
