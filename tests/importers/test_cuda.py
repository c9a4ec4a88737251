"""What names of kernels, calls and copies say."""

import pytest

from stepwhy.importers.shared.cuda import (
    call_kind,
    copy_direction,
    exchanges,
    framework_of,
    qualified_name,
    without_version,
)
from stepwhy.trace import Copy, Kind


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (
            "_ZN2at6native18elementwise_kernelILi512ELi1EZNS0_15gpu",
            "at::native::elementwise_kernel",
        ),
        ("_Z21indexSelectLargeIndexIfjLi2ELi2E", "indexSelectLargeIndex"),
        ("_Z3add3Foo", "add"),
        ("_ZN7cutlass6KernelI4GemmE", "cutlass::Kernel"),
        (
            "_ZN2at6native26_GLOBAL__N__12_tmpxft_000019cunn_SoftMaxForwardILi2EfffE",
            "at::native::(anonymous namespace)::cunn_SoftMaxForward",
        ),
        ("_ZN12_GLOBAL__N_14fillEPf", "(anonymous namespace)::fill"),
        ("_ZL4filePf", "file"),
        ("_ZNK3abc4callEv", "abc::call"),
        ("volta_sgemm_32x128_nn", "volta_sgemm_32x128_nn"),
        ("_Z", "_Z"),
        ("_ZN99999", "_ZN99999"),
        ("", ""),
    ],
)
def test_qualified_name(symbol, name):
    assert qualified_name(symbol) == name


@pytest.mark.parametrize(
    ("written", "name", "kind"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", Kind.LAUNCH),
        ("cudaMemcpy_v3020", "cudaMemcpy", Kind.SYNC),
        ("cudaMemcpy_ptds_v7000", "cudaMemcpy", Kind.SYNC),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync", Kind.LAUNCH),
        ("cudaStreamGetCaptureInfo_v2_v11030", "cudaStreamGetCaptureInfo", Kind.RUNTIME),
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD", Kind.SYNC),
        ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", Kind.LAUNCH),
        ("cuLaunchKernel_ptsz", "cuLaunchKernel", Kind.LAUNCH),
        ("cuModuleLoadDataEx", "cuModuleLoadDataEx", Kind.COMPILE),
        ("cudaStreamSynchronize_v3020", "cudaStreamSynchronize", Kind.SYNC),
        ("hipStreamWaitEvent", "hipStreamWaitEvent", Kind.RUNTIME),
        ("cnrtMemcpy", "cnrtMemcpy", Kind.SYNC),
        ("cnrtMemcpyAsync", "cnrtMemcpyAsync", Kind.LAUNCH),
        ("cnrtQueueWaitNotifier", "cnrtQueueWaitNotifier", Kind.RUNTIME),
        ("urEnqueueMemBufferWrite", "urEnqueueMemBufferWrite", Kind.LAUNCH),
        ("urEnqueueEventsWaitWithBarrier", "urEnqueueEventsWaitWithBarrier", Kind.RUNTIME),
    ],
)
def test_calls(written, name, kind):
    assert without_version(written) == name
    assert call_kind(name) is kind


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", True),
        ("multimem_all_reduce_kernel", True),
        ("(anonymous namespace)::all_gather<float>(float*)", True),
        ("void at::native::reduce_kernel<512, 1, AllReduceOp>(int)", False),
        ("triton_poi_fused_all_reduce_add_0", False),
        ("volta_sgemm_32x128_nn", False),
    ],
)
def test_collectives(kernel, expected):
    assert exchanges(kernel) is expected


@pytest.mark.parametrize(
    ("written", "direction"),
    [
        ("CUDA_MEMCPY_KIND_HTOD", Copy.H2D),
        ("CUDA_MEMCPY_KIND_UVM_DTOH", Copy.D2H),
        ("PTOP", Copy.PEER),
        ("CUDA_MEMCPY_KIND_UNKNOWN", Copy.NONE),
        ("", Copy.NONE),
    ],
)
def test_directions(written, direction):
    assert copy_direction(written) is direction


@pytest.mark.parametrize(
    ("names", "framework"),
    [
        (["volta_sgemm", "void at::native::softmax<float>"], "pytorch"),
        (["at::native::softmax"], "pytorch"),
        (["tensorflow::functor::Relu"], "tensorflow"),
        (["format::native::x", "beat::native"], ""),
        ([], ""),
    ],
)
def test_framework(names, framework):
    assert framework_of(names) == framework
