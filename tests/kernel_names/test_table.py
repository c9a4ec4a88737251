"""What names of device work stand for: names as libraries write them, checked by hand."""

import pytest

from stepwhy.read.kernel_names import (
    activity_row,
    instruction_row,
    is_exchange,
    kernel_row,
    moving_row,
    operation_row,
    table,
)
from stepwhy.read.kernel_names.table import Family

COMMUNICATION = [
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
    "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)",
    "ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)",
    "mscclKernel_Sum_hip_bfloat16_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
    "rcclGenericKernel",
    "oneccl_allreduce_pcie<sycl::half, Rt64_128_PCIE, RingTransmit>",
    "hcom_allReduce__538_0_1",
    "REDUCE_ASYNC_V2",
    "nvshmemi_signal_op_kernel(unsigned long*, unsigned long, int, int)",
    "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(float*)",
    "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*)",
    "void primus_turbo::deep_ep::intranode::cached_notify_dispatch<8>(int const*, int)",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16, false>(int)",
    "void a2a_dispatch_send_kernel<true, false, 16ul, 8ul>(unsigned long)",
    "moeA2ADispatchKernel(int const*, int)",
    "void rmsNormLamport_fusion<__nv_bfloat16, 1>(__nv_bfloat16*)",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "_ZN5aiter26cross_device_reduce_2stageIDF16bLi8ELb0EEEv",
    "_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE",
    "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(int)",
    "void userbuffers_fp16_sum_inplace_gpu_rr_rs<2>(int, int, void**)",
    "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)",
    "void (anonymous namespace)::multimem_one_shot_reduce_kernel<float, 16, 8>(float*)",
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(int)",
    "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)",
    "exchangeSplitAndOffset(long*, int, int)",
    "void c10d::intra_node_comm::oneShotAllReduceKernel<2u, true>(int)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<int>(int)",
    "void tensorrt_llm::kernels::mnnvl::twoshotAllreduceKernel<8, float>(float*)",
    "SenRdmaSend_82227 [sync=AllReduce_all_reduce_4_s0_r1_0] DmaO",
    "AllReduce_all_reduce_4_Add_1 Cmpt Exec",
    "cc_running",
]
COMPUTATION = {
    "void at::native::reduce_kernel<512, 1, AllReduceOp>(int)": None,
    "triton_poi_fused_add_all_reduce_4": Family.FUSION,
    "triton__0d1d2d": Family.FUSION,
    "aclnnMatmulAllReduce_MatmulAllReduce": Family.PRODUCT,
    "softmax_shmem_kernel": None,
    "SigmoidGrad": None,
    "AdaptiveAvgPool2dGrad71Mul": None,
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)": None,
    "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>(int)": None,
    "create_flashinfer_kv_indices_triton": None,
    "get_dispatch_layout": None,
    "_combined_routing_memset": None,
    "void cunn_SoftMaxForward<8, float>(float*)": None,
    "triton_tem_fused_flex_attention_0": Family.ATTENTION,
    "triton_tem_fused_addmm_3": Family.PRODUCT,
    "triton_tem_fused_convolution_1": Family.CONVOLUTION,
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(int)": (
        Family.ATTENTION
    ),
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>(int)": (
        Family.ATTENTION
    ),
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>(int)": (
        Family.ATTENTION
    ),
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)": (
        Family.ATTENTION
    ),
    "ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<int>>(int)": Family.ATTENTION,
    "aiter::fmha_fwd_hd128_bf16_causal_group": Family.ATTENTION,
    "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ8Kv128": Family.ATTENTION,
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7": Family.ATTENTION,
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<int>(int)": Family.ATTENTION,
    "void paged_attention_ll4mi_QKV_mfma16_kernel<0>(int)": Family.ATTENTION,
    "kernel_unified_attention_2d": Family.ATTENTION,
    "void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<float>(int)": (
        Family.ATTENTION
    ),
    "attn_fwd": Family.ATTENTION,
    "_attn_bwd": Family.ATTENTION,
    "bwd_kernel_dk_dv": Family.ATTENTION,
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc": Family.CONVOLUTION,
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x128>(int)": (
        Family.CONVOLUTION
    ),
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5>(int)": Family.CONVOLUTION,
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": Family.CONVOLUTION,
    "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x16": Family.CONVOLUTION,
    "Im3d2Col.kd": Family.CONVOLUTION,
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3I": (
        Family.CONVOLUTION
    ),
    "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_SN_1LDSB0": Family.PRODUCT,
    "nvjet_sm103_tst_64x16_64x16_4x1_v_bz_TNT": Family.PRODUCT,
    "volta_sgemm_128x64_tn": Family.PRODUCT,
    "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s6_et128x8": Family.PRODUCT,
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8::Params)": Family.PRODUCT,
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu": Family.PRODUCT,
    "loop_add_multiply_fusion.3": Family.FUSION,
    "wrapped_transpose": Family.FUSION,
}
MEMORY = {
    "__amd_rocclr_copyBuffer.kd": Family.COPY,
    "__amd_rocclr_fillBufferAligned": Family.FILL,
}
ACTIVITIES = {
    "Memcpy HtoD (Pageable -> Device)": Family.COPY,
    "MemcpyD2D": Family.COPY,
    "CopyDeviceToDevice": Family.COPY,
    "MEMCPY_ASYNC": Family.COPY,
    "MemcopyAsync": Family.COPY,
    "memory copy H2D": Family.COPY,
    "Transfer_82 DmaI": Family.COPY,
    "dma_request": Family.COPY,
    "params D2H": Family.COPY,
    "Memset (Device)": Family.FILL,
    "aclnnMm_MatMulCommon_MemSet": Family.FILL,
    "NOTIFY_WAIT": Family.WAIT,
    "semaphore_wait": Family.WAIT,
    "event_record": Family.WAIT,
    "idle": Family.WAIT,
    "AllReduce_all_reduce_4_Add_1 Cmpt Prep": Family.WAIT,
    "Other": Family.UNKNOWN,
    "add_11 Cmpt Exec": None,
    "copy_fusion_1": None,
}
INSTRUCTIONS = {
    "all-reduce-start": Family.COMMUNICATION,
    "ragged-all-to-all": Family.COMMUNICATION,
    "recv-done": Family.COMMUNICATION,
    "copy-done": Family.COPY,
    "infeed": Family.WAIT,
    "reduce": None,
    "sender": None,
    "fusion": None,
}
OPERATIONS = {
    "CollectiveReduceV2": Family.COMMUNICATION,
    "_NcclReduceSend": Family.COMMUNICATION,
    "HorovodAllreduce": Family.COMMUNICATION,
    "CrossReplicaSum": Family.COMMUNICATION,
    "EagerPyFunc": Family.CALLBACK,
    "PyFuncStateless": Family.CALLBACK,
    "MatMul": None,
    "Sum": None,
}


def family(row):
    return row and row.family


@pytest.mark.parametrize("name", COMMUNICATION)
def test_what_a_library_exchanges_is_communication_whatever_its_name(name):
    assert kernel_row(name) is moving_row(name) is activity_row(name)
    assert kernel_row(name).family is Family.COMMUNICATION


@pytest.mark.parametrize(("name", "expected"), [*COMPUTATION.items(), *MEMORY.items()])
def test_kernels(name, expected):
    assert family(kernel_row(name)) is expected
    assert family(moving_row(name)) is not Family.COMMUNICATION


@pytest.mark.parametrize(("name", "expected"), ACTIVITIES.items())
def test_activities(name, expected):
    assert family(activity_row(name)) is expected


@pytest.mark.parametrize(("name", "expected"), INSTRUCTIONS.items())
def test_instructions(name, expected):
    assert family(instruction_row(name)) is expected


@pytest.mark.parametrize(("op", "expected"), OPERATIONS.items())
def test_operations(op, expected):
    assert family(operation_row(op)) is expected


@pytest.mark.parametrize(
    ("name", "expected"), [("gloo:all_reduce", True), ("ucc:bcast", True), ("glooey", False)]
)
def test_ranges_on_the_host(name, expected):
    assert is_exchange(name) is expected


@pytest.mark.parametrize("part", ["gemm", "all", "x", "loop_a_", "deep_ep::", "1a"])
def test_very_long_names_are_looked_up(part):
    """Without a limit, this would take hours."""
    for ask in (kernel_row, moving_row, activity_row, instruction_row, operation_row):
        assert ask(part * 200_000) == ask(part * 100_000)


def test_every_row_has_a_source_and_a_name_that_only_it_knows():
    asked = (
        (table.KERNELS, kernel_row, [*COMMUNICATION, *COMPUTATION, *MEMORY]),
        (table.ACTIVITIES, activity_row, [*ACTIVITIES, *COMMUNICATION, *COMPUTATION, *MEMORY]),
        (table.INSTRUCTIONS, instruction_row, INSTRUCTIONS),
        (table.OPERATIONS, operation_row, OPERATIONS),
    )
    for rows, row_of, names in asked:
        assert {id(row) for row in rows} == {id(row) for row in map(row_of, names) if row}
        assert all(row.source and row.library for row in rows)
