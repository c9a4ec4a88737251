"""Kernel names as people say them, from names of recorded traces."""

import pytest

from stepwhy.read.kernel_names.short import LONGEST, short_name

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, {}, std::array<char*, 2ul> >(int)"
LAUNCHED = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{0}>"
    "(at::TensorIteratorBase&, {0} const&)::{{lambda(int)#1}}>(int, {0})"
)
BINARY = (
    "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "at::native::binary_internal::MulFunctor<float> >"
)
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
    "const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}"
)
NSYS_COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda(float) "
    "(instance 1)], std::array<char *, (unsigned long)2>>(int, T1, T2)"
)
REDUCE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()("
    "at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4> >(int)"
)
OPTIMIZER = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<"
    "float, 4, (at::native::ADAM_MODE)0>, float const*>(int)"
)
CUTLASS = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x3_tn_align8"
EIGEN = (
    "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<int, "
    "Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_product_op<Eigen::half> > > > >(int)"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            ELEMENTWISE.format("at::native::CUDAFunctor_add<float>"),
            "vectorized_elementwise CUDAFunctor_add<float>",
        ),
        (LAUNCHED.format(BINARY), "elementwise MulFunctor<BFloat16>"),
        (LAUNCHED.format(COPY), "elementwise direct_copy<BFloat16>"),
        (NSYS_COPY, "unrolled_elementwise direct_copy<float>"),
        (REDUCE, "reduce sum_functor<float>"),
        (OPTIMIZER, "multi_tensor_apply FusedAdamMathFunctor<float>"),
        (EIGEN, "Eigen scalar_product_op"),
        (
            f"void cutlass::Kernel2<{CUTLASS}>({CUTLASS}::Params)",
            "CUTLASS bf16_s16816gemm_relu_bf16 128x64 tn",
        ),
        (
            "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64MultiCtasKvCgaVarSeqQ8Kv128",
            "TensorRT-LLM fmhaSm100fKernel_QkvBfloat16OBfloat16H128",
        ),
        (
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_LDSB1_AFC1",
            "Tensile gemm bf16 256x32x64 TN",
        ),
        (
            (
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
                "execute_segment_k_off_kernel__5x_cublas"
            ),
            "cuBLAS gemm bf16 128x128x64",
        ),
        (
            (
                "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize"
                "256x64x32_stage3_warpsize4x2x1_g1_tensor16x8x8_execute_kernel_cudnn_infer"
            ),
            "cuDNN fprop tf32 256x64x32",
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1",
            "cuDNN sdpa_sm90_flash_fprop_wgmma_f16 64x128x128",
        ),
        (
            "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex0_bt256x64x8_wt64x16x4_ws1x1_wr2x2.kd",
            "MIOpen igemm_fwd bf16 256x64x8 nhwc",
        ),
        (
            "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6_et128x8_m128x8x16",
            "TensorRT-LLM bmm Bfloat16_Bfloat16Bfloat16_Fp32 128x8x128",
        ),
        (
            "kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel_object_at__tensorptr",
            "CuTe RMSNormKernel",
        ),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic"),
        (
            "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(int)",
            "pytorch_flash::flash_fwd_kernel",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<c10::Half, float, float, 9>(int)",
            "softmax_warp_forward<Half>",
        ),
        ("at::native::reduce_kernel", "reduce_kernel"),
        ("void gemv2N_kernel<int, int, float, float, 128>(int)", "gemv2N_kernel<float>"),
        (
            (
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::"
                "(anonymous namespace)::OpaqueType<2u>, unsigned int, 4>(int)"
            ),
            "CatArrayBatchedCopy",
        ),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, __half, 128>(int)",
            "gemvx::kernel<__half>",
        ),
        (
            "void tensorflow::functor::FillPhiloxRandomKernelLaunch<int>(int)",
            "tensorflow::FillPhiloxRandomKernelLaunch<int>",
        ),
        (
            "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_4GemmE",
            "ck::kernel_batched_gemm_xdlops_bwd_weight",
        ),
        (
            "void rocprim::ROCPRIM_400001_NS::detail::transform_kernel<true, x>(int)",
            "rocprim::transform_kernel",
        ),
    ],
)
def test_kernels(name, short):
    assert short_name(name) == short
    assert short_name(short) == short


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_32x128_nn",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
        "triton_poi_fused_add_0",
        "Memcpy HtoD (Pageable -> Device)",
        "aten::addmm",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "PjitFunction(train_step)",
        "jit(train_step)/jvp(Dense)/dot_general",
        "train.py(12): forward",
        "<built-in method sum of type object at 0x7f>",
        "gradients/conv1/Conv2D_grad/Conv2DBackpropFilter",
        "TSL:XlaModule:#prefix=jit(train_step)#,hlo_module=jit_train_step#",
        "stage prefetch of tf.data (buffer full)",
        "a" * 500,
        "",
    ],
)
def test_other_names_stay(name):
    assert short_name(name) == name


def test_a_name_that_stays_long_loses_its_middle():
    short = short_name(f"void {'split_embedding_' * 8}adagrad_kernel<float>(int)")
    assert len(short) == LONGEST
    assert short.startswith("split_embedding_split_")
    assert short.endswith("adagrad_kernel<float>")


@pytest.mark.parametrize(
    "name",
    [
        "void " + "at::native::ReduceOp<" * 380,
        "void x_elementwise<" + "at::native::ReduceOp<int, " * 300 + ">" * 300,
        "a(" + "*" * 8_000,
        "sm80_xmma_gemm_" + "f32_" * 2_000,
        "void f<" * 10**6,
    ],
)
def test_damaged_names_are_shortened(name):
    """Without a limit, this would take hours."""
    assert 0 < len(short_name(name)) <= len(name)
