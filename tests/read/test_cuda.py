"""What names of kernels, calls and copies say."""

import pytest

from stepwhy.read.shared.cuda import (
    call_kind,
    copy_direction,
    framework_of,
    kernel_copy,
    kernel_kind,
    named_direction,
    without_version,
)
from stepwhy.trace import Copy, Kind


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
    ("kernel", "kind", "copy"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", Kind.COLLECTIVE, Copy.NONE),
        ("triton_poi_fused_all_reduce_add_0", Kind.KERNEL, Copy.NONE),
        ("volta_sgemm_32x128_nn", Kind.KERNEL, Copy.NONE),
        ("__amd_rocclr_copyBuffer", Kind.MEMCPY, Copy.D2D),
        ("__amd_rocclr_fillBufferAligned.kd", Kind.MEMSET, Copy.NONE),
    ],
)
def test_kernels(kernel, kind, copy):
    assert (kernel_kind(kernel), kernel_copy(kernel)) == (kind, copy)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", Copy.H2D),
        ("zeCommandListAppendMemoryCopy(M2D)", Copy.H2D),
        ("Memcpy DtoH (Device -> Pinned)", Copy.D2H),
        ("MemcpyP2P", Copy.PEER),
        ("CopyDeviceToDevice", Copy.D2D),
        ("Memcpy HtoH (Host -> Host)", Copy.H2H),
        ("Transfer_82 DmaO", Copy.D2H),
        ("MEMCPY_ASYNC", Copy.NONE),
    ],
)
def test_directions_in_names(name, direction):
    assert named_direction(name) is direction


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
