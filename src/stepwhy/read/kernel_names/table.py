"""What device work is, by its name: the one table that all importers ask.

Each row names the library, and the file or page that the names come from. Patterns match lower
case letters; in each list, the first match wins. `KERNELS` look at the kernel's own name: template
arguments may mention anything.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    import re


class Family(StrEnum):
    """What a name stands for."""

    COMMUNICATION = "communication"  # a collective or an exchange with another device
    COPY = "copy"
    FILL = "fill"
    WAIT = "wait"  # the device waits
    CALLBACK = "callback"  # a function in Python, called by compiled code
    UNKNOWN = "unknown"  # not recorded what it is
    ATTENTION = "attention"  # fused: it does not write the scores to memory
    CONVOLUTION = "convolution"
    PRODUCT = "matrix product"
    FUSION = "fusion"  # a compiler's, named after the operations in it, or after nothing


class Row(NamedTuple):
    """A row of the table.

    Args:
        family: What the names are.
        library: Who names them so.
        pattern: Names in lower case, to be searched for.
        source: File or page that the names come from.
    """

    family: Family
    library: str
    pattern: re.Pattern[str]
    source: str


def _row(family: Family, library: str, pattern: str, source: str) -> Row:
    return Row(family, library, regex(pattern), source)


# Generated kernels are named after what they join, which may be a collective that comes later.
_GENERATED = (
    _row(
        Family.ATTENTION,
        "Inductor",
        r"^triton_tem_\w*attention",
        "pytorch: torch/_inductor/kernel/flex",
    ),
    _row(
        Family.CONVOLUTION,
        "Inductor",
        r"^triton_tem_\w*convolution",
        "pytorch: torch/_inductor/kernel/conv.py",
    ),
    _row(
        Family.PRODUCT,
        "Inductor",
        r"^triton_tem_\w*mm(?:_|$)",
        "pytorch: torch/_inductor/kernel/mm.py",
    ),
    _row(
        Family.PRODUCT,
        "CANN, TensorRT-LLM",
        r"(?:gemm|mat_?mul)\w*(?:all_?reduce|reduce_?scatter|all_?to_?all)|(?:all_?gather"
        r"|all_?to_?all)\w*(?:gemm|mat_?mul)",
        "CANN: aclnnMatmulAllReduce, aclnnAllGatherMatmul; TensorRT-LLM: "
        "cutlass_extensions/gemm/kernel/sm100_gemm_allreduce*.hpp",
    ),
    _row(
        Family.FUSION,
        "Inductor",
        r"^triton_(?:[a-z]+_fused_|_\d)",
        "pytorch: torch/_inductor/codegen/triton.py (triton_poi_*, triton_red_*, triton_per_*)",
    ),
)

_COMMUNICATION = (
    _row(
        Family.COMMUNICATION,
        "NCCL",
        r"nccl",
        "nccl: src/device/generate.py (ncclDevKernel_*), src/device/symmetric/generate.py "
        "(ncclSymDevKernel_*, ncclSymkDevKernel_*), src/collectives/device/common.h "
        "(ncclKernel_*)",
    ),
    _row(
        Family.COMMUNICATION,
        "RCCL",
        r"rccl|msccl",
        "rccl: src/include/msccl/msccl_kernel.h (mscclKernel_*); old releases: rcclGenericKernel",
    ),
    _row(
        Family.COMMUNICATION,
        "oneCCL",
        r"oneccl",
        "oneCCL: src/coll/algorithms/allreduce/sycl (oneccl_allreduce_pcie)",
    ),
    _row(
        Family.COMMUNICATION,
        "HCCL",
        r"hccl|hcom_|^reduce_async",
        "CANN: hcom_allReduce_ and others; runtime's task type TS_TASK_TYPE_REDUCE_ASYNC_V2",
    ),
    _row(
        Family.COMMUNICATION,
        "NVSHMEM, rocSHMEM",
        r"nvshmem|rocshmem|_on_stream_kernel",
        "nvshmem: src/include/internal/non_abi/nvshmemi_h_to_d_coll_defs.cuh "
        "(barrier_on_stream_kernel), nvshmemi_h_to_d_sync_defs.cuh (nvshmemi_signal_op_kernel)",
    ),
    _row(
        Family.COMMUNICATION,
        "DeepEP",
        r"deep_ep::(?:\w+::)*(?:intra|inter)node",
        "DeepEP: csrc/kernels/intranode.cu, internode.cu, internode_ll.cu",
    ),
    _row(
        Family.COMMUNICATION,
        "MORI",
        r"ep(?:dispatch|combine)(?:intra|inter)node",
        "mori: src/ops/dispatch_combine/intranode.hpp",
    ),
    _row(
        Family.COMMUNICATION,
        "pplx-garden",
        r"a2a_(?:dispatch|combine)_(?:send|recv)",
        "pplx-garden: p2p-all-to-all/a2a-kernels/src/a2a/a2a_dispatch_send.cu",
    ),
    _row(
        Family.COMMUNICATION,
        "TensorRT-LLM",
        r"moea2a(?:dispatch|combine)|rmsnormlamport",
        "TensorRT-LLM: kernels/communicationKernels/moeAlltoAllKernels.cu, "
        "mnnvlAllreduceKernels.cu (rmsNormLamport polls for the other devices' sums)",
    ),
    _row(
        Family.COMMUNICATION,
        "vLLM, SGLang, AITER",
        r"cross_device_(?:reduce|store)",
        "vllm: csrc/custom_all_reduce.cuh; aiter: "
        "csrc/include/custom_all_reduce.cuh (reduce_scatter_cross_device_store)",
    ),
    _row(
        Family.COMMUNICATION,
        "Transformer Engine",
        r"userbuffers",
        "TransformerEngine: common/comm_gemm_overlap/userbuffers/userbuffers.cu",
    ),
    _row(
        Family.COMMUNICATION,
        "PyTorch",
        r"multimem_|symmetric_memory::|exchangesplitandoffset|(?:put|wait)_signal_kernel",
        "pytorch: torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu, "
        "CUDASymmetricMemory.cu, nvshmem_extension.cu",
    ),
    _row(
        Family.COMMUNICATION,
        "AIU",
        r"^senrdma",
        "aiu-trace-analyzer: RDMA of IBM's AIU (SenRdmaSend, SenRdmaReceive)",
    ),
    _row(
        Family.COMMUNICATION,
        "Neuron",
        r"^cc_(?:running|op_exec|exec_barrier)$",
        "AWS Neuron: system profiles, hardware events (NEURON_RT_INSPECT_EVENT_FILTER_TYPE)",
    ),
    _row(
        Family.COMMUNICATION,
        "several",
        r"all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|all2all"
        r"|collective[-_]?permute|send_?recv",
        "pytorch: CUDASymmetricMemoryOps.cu (two_shot_all_reduce_kernel), "
        "intra_node_comm.cu; TensorRT-LLM, FlashInfer: "
        "allreduce_fusion_kernel_oneshot_lamport, twoshotAllreduceKernel; vllm: csrc/quickreduce "
        "(allreduce_prototype_twoshot); XLA: HLO opcodes",
    ),
)

# How ROCm's runtime copies and fills memory where it uses no copy engine.
_MEMORY = (
    _row(Family.COPY, "ROCm", r"^__amd_rocclr_copy", "clr: rocclr/device/blitcl.cpp"),
    _row(Family.FILL, "ROCm", r"^__amd_rocclr_fill", "clr: rocclr/device/blitcl.cpp"),
)

_COMPUTATION = (
    _row(
        Family.ATTENTION,
        "FlashAttention",
        r"\bflash(?:::|_fwd_|_bwd_)|flash_?att(?:n|ention)",
        "flash-attention: csrc/flash_attn/src/flash_fwd_launch_template.h, "
        "hopper/flash_fwd_kernel_sm90.h (FlashAttnFwdSm90)",
    ),
    _row(
        Family.ATTENTION,
        "xFormers, CK, AITER, TensorRT-LLM",
        r"fmha",
        "xformers, pytorch: fmha_cutlassF_*; composable_kernel: fmha_fwd_kernel.hpp; aiter: "
        "fmha_fwd_hd128_*; TensorRT-LLM: fmhaSm100fKernel_*; apex: fmha_fwd_loop_kernel",
    ),
    _row(
        Family.ATTENTION,
        "cuDNN",
        r"_sdpa_",
        "cuDNN: cudnn_generated_fort_native_sdpa_sm90_flash_fprop_*",
    ),
    _row(
        Family.ATTENTION,
        "FlashInfer",
        r"(?:batch|single)(?:decode|prefill)with\w*kvcache",
        "flashinfer: include/flashinfer/attention/prefill.cuh, decode.cuh",
    ),
    _row(
        Family.ATTENTION,
        "vLLM",
        r"paged_attention|kernel_unified_attention",
        "vllm: csrc/attention, csrc/rocm/attention.cu, triton_unified_attention.py",
    ),
    _row(
        Family.ATTENTION,
        "TensorRT-LLM",
        r"masked_multihead_attention",
        "TensorRT-LLM: kernels/decoderMaskedMultiheadAttention/"
        "decoderMaskedMultiheadAttentionTemplate.h",
    ),
    _row(
        Family.ATTENTION,
        "Triton",
        r"^_?attn_(?:fwd|bwd)|^bwd_kernel_(?:fuse|dk_dv|dq)",
        "triton: python/tutorials/06-fused-attention.py; aotriton: tritonsrc/flash.py",
    ),
    _row(
        Family.CONVOLUTION,
        "cuDNN",
        r"(?:^|_|::|s\d+)(?:fprop|dgrad|wgrad)(?:_|\d)|scudnn|winograd|_convolve_|cudnn::cnn::"
        r"|^cutlass_cudnn|cask\w*_cudnn",
        "cuDNN: sm80_xmma_fprop_implicit_gemm_*, volta_scudnn_*, implicit_convolve_sgemm",
    ),
    _row(
        Family.CONVOLUTION,
        "MIOpen",
        r"^igemm_(?:fwd|bwd|wrw)_|^im3d2col|^miopen\w*conv|^naive_conv",
        "MIOpen: src/kernels (igemm_fwd_gtcx3_nhwc_*, MIOpenIm3d2Col.cl, naive_conv.cpp)",
    ),
    _row(
        Family.CONVOLUTION,
        "CK",
        r"ck(?:_tile)?::.*conv",
        "composable_kernel: kernel_grouped_conv_fwd_*",
    ),
    _row(
        Family.PRODUCT,
        "Tensile, hipBLASLt",
        r"^(?:custom_)?cijk_",
        "Tensile: SolutionStructs.py (Cijk_Ailk_Bljk_* after the indices of the product)",
    ),
    _row(
        Family.PRODUCT,
        "cuBLAS",
        r"^nvjet_|gemv|splitkreduce|cublas",
        "cuBLAS: nvjet_sm90_*, gemv2T_kernel_val, gemvNSP_kernel, splitKreduce_kernel",
    ),
    _row(
        Family.PRODUCT,
        "TensorRT-LLM",
        r"^bmm_\w+_t\d+x\d+",
        "TensorRT-LLM: trtllmGenKernels/batchedGemm",
    ),
    _row(
        Family.PRODUCT,
        "cuBLAS, CUTLASS, CK, XLA",
        r"(?<!fb)gemm",  # not FBGEMM, which is named after its namespace
        "cuBLAS: volta_sgemm_*, sm80_xmma_gemm_*; cutlass: cutlass_80_tensorop_*gemm*; "
        "composable_kernel: kernel_gemm_xdl_*; XLA: gemm_fusion_dot",
    ),
    _row(
        Family.PRODUCT,
        "Triton, TensorFlow, CANN",
        r"mat_?mul",
        "triton: python/triton_kernels/triton_kernels/matmul_ogs.py (_matmul_ogs_*); op types "
        "MatMul, BatchMatMulV2",
    ),
    _row(
        Family.FUSION,
        "XLA",
        r"\b(?:loop|input)_(?:\w+_)?fusion|^fusion\b|^wrapped_",
        "xla: xla/service/gpu/transforms/rename_fusions.cc, fusion_wrapper.cc",
    ),
)

MOVING = (*_GENERATED, *_MEMORY, *_COMMUNICATION)
"""The first of `KERNELS`, which are enough to tell computation from all else."""

KERNELS = (*MOVING, *_COMPUTATION)
"""Kernels, by their own name."""

# On the rows of a device, but not work.
_WAITS = (
    _row(
        Family.WAIT,
        "MTIA, Ascend",
        r"(?:event|notify)[-_ ]?(?:wait|record)|wait[-_ ]?event|semaphore|barrier[-_ ]?wait",
        "CANN runtime: task types EVENT_WAIT, NOTIFY_WAIT; kineto: rows of MTIA",
    ),
    _row(Family.WAIT, "several", r"^idle$", "rows that show an idle device"),
    _row(
        Family.WAIT,
        "AIU",
        r" cmpt prep$",
        "aiu-trace-analyzer: the wait for input before ' Cmpt Exec'",
    ),
    _row(
        Family.UNKNOWN,
        "Ascend",
        r"^other$",
        "msprof: a task whose type was not recorded, as inside collectives",
    ),
)

# On the rows of a device, beside kernels.
_COPIES = (
    _row(
        Family.COPY,
        "CUDA, ROCm, Ascend, XLA",
        r"mem(?:ory)?[ _]?co?py|copy ?(?:host|device|buffer)",
        "cupti: CUpti_ActivityMemcpyKind; CANN runtime: task type MEMCPY_ASYNC; xla: "
        "rocm_tracer (CopyDeviceToDevice)",
    ),
    _row(Family.COPY, "AIU", r" dma[io]$", "aiu-trace-analyzer: DMA in and out"),
    _row(Family.COPY, "MTIA", r"^dma(?:_|$)", "kineto: dma_request"),
    _row(Family.COPY, "several", r"\b[hd](?:to|2)[hd]\b", "h2d, DtoH"),
    _row(Family.FILL, "CUDA, ROCm, Ascend", r"mem_?set", "cupti: CUpti_ActivityMemset"),
)

ACTIVITIES = (*_WAITS, *_GENERATED, *_MEMORY, *_COMMUNICATION, *_COPIES, *_COMPUTATION)
"""Kernels, and all else on a device's row, where a file does not tell them apart."""

INSTRUCTIONS = (
    _row(
        Family.COMMUNICATION,
        "XLA",
        r"^(?:ragged-)?(?:all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute"
        r"|collective-broadcast|cross-replica|send|recv)\b",
        "xla: xla/hlo/ir/hlo_opcode.h",
    ),
    _row(Family.COPY, "XLA", r"^copy-(?:start|done)\b", "xla: xla/hlo/ir/hlo_opcode.h"),
    _row(Family.WAIT, "XLA", r"^(?:infeed|outfeed)\b", "xla: xla/hlo/ir/hlo_opcode.h"),
)
"""HLO instructions of XLA, and their categories."""

OPERATIONS = (
    _row(
        Family.COMMUNICATION,
        "TensorFlow, Horovod",
        r"^(?:_?(?:collective|nccl|horovod)\w+|crossreplicasum|xlaallreduce)$",
        "tensorflow: core/ops/collective_ops.cc, nccl_ops.cc, tpu_cross_replica_ops.cc; "
        "horovod: tensorflow/mpi_ops.cc",
    ),
    _row(
        Family.CALLBACK,
        "TensorFlow",
        r"^(?:eager)?pyfunc(?:stateless)?$",
        "tensorflow: core/ops/script_ops.cc",
    ),
)
"""Operations of TensorFlow graphs, where an executor of the CPU runs them."""

RANGES = (
    _row(
        Family.COMMUNICATION,
        "PyTorch",
        r"^(?:gloo|mpi|ucc|xccl):",
        "pytorch: c10d/ProcessGroupGloo.cpp and its like",
    ),
)
"""Ranges on host threads."""
