"""Precision of kernels by name, and what is faster by the model of the device."""

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.shared.precision import faster_type, precision_of
from stepwhy.trace.notation import parse

TENSILE = "Cijk_Alik_Bljk_{}_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0"


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("ampere_sgemm_128x64_tn", "full"),
        ("cudnn_turing_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1", "full"),
        ("void sgemm_largek_lds64<true, true, 6, 3, 4, 5, 2, 66>(float*)", "full"),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 5>(int, float const*)", "full"),
        ("void cudnn::detail::dgrad_engine<float, (int)512>(int, float const*)", "full"),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(P)", "full"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma", "full"),
        (TENSILE.format("SB"), "full"),
        (TENSILE.format("BBS_BH"), "lower"),
        ("ampere_fp16_sgemm_fp16_32x128_tn", "lower"),
        ("void cudnn::cnn::wgrad_alg0_engine<__half, 512, 6>(int, __half const*)", "lower"),
        ("volta_h884gemm_64x64_ldg8_nn", "lower"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc", "lower"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1", "lower"),
        ("void cudnn::cnn::conv2d_grouped_direct_kernel<float, float>(P)", ""),
        ("void cudnn::detail::dgrad2d_c1_k1_nchw_float<float, 3>(P)", ""),
        ("ampere_gcgemm_64x64_nt", ""),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(P)", ""),
        ("MatMul", ""),
    ],
)
def test_precision(name, precision):
    assert precision_of(name) == precision


@pytest.mark.parametrize(
    ("models", "faster"),
    [
        (["NVIDIA A100-SXM4-80GB"], "tf32"),
        (["NVIDIA H100 80GB HBM3"], "tf32"),
        (["NVIDIA B300 SXM6 AC"], "tf32"),
        (["NVIDIA L4"], "tf32"),
        (["NVIDIA RTX A6000"], "tf32"),
        (["NVIDIA A10G"], "bfloat16"),
        (["NVIDIA GeForce RTX 4090"], "bfloat16"),
        (["AMD Instinct MI300X VF"], "bfloat16"),
        (["Tesla V100-DGXS-32GB"], "float16"),
        (["Tesla T4"], "float16"),
        (["NVIDIA GeForce RTX 2080 Ti"], "float16"),
        (["Quadro GP100"], "none"),
        (["NVIDIA GeForce GTX 1660"], "none"),
        (["AMD Radeon Graphics"], ""),
        ([""], ""),
        (["Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB"], "float16"),
        (["Tesla V100-SXM2-32GB", "NVIDIA A100 80GB PCIe"], ""),
    ],
)
def test_faster_type(models, faster):
    rows = [f"model: {model}\nGPU:{i} kernel |kk|  k=gemm" for i, model in enumerate(models)]
    trace = parse("\n".join(["unit: 1 ms", "main step |[]|", *rows]))
    assert faster_type(Facts(trace)) == faster
