"""A kernel's own name."""

import pytest

from stepwhy.read.kernel_names import own_name, qualified_name


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
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_1aE", "ck_tile::Rmsnorm2dFwd"),
        ("_ZN7ck_tile6kentryILi1ELi2ENS_13FmhaFwdKernelIfE", "ck_tile::FmhaFwdKernel"),
        ("_ZN7cutlass6KernelINS_4conv6kernel4ConvIfE", "cutlass::conv::kernel::Conv"),
        ("_ZN7ck_tile6kentryILi1ENS_", "ck_tile::kentry"),
        ("_Z", "_Z"),
        ("_ZN99999", "_ZN99999"),
        ("", ""),
    ],
)
def test_qualified_name(symbol, name):
    assert qualified_name(symbol) == name


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("volta_sgemm_128x64_tn", "volta_sgemm_128x64_tn"),
        ("void at::native::(anonymous namespace)::cat<float>(float*)", "at::native::cat"),
        ("void at::native::<unnamed>::cat<float>(float *)", "at::native::cat"),
        ("at::cuda::(anonymous namespace)::spin_kernel(long)", "at::cuda::spin_kernel"),
        ("wrapped_add.kd", "wrapped_add"),
        ("_combined_routing_compute [clone .kd]", "_combined_routing_compute"),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)",
            "internal::gemvx::kernel",
        ),
        ("void cutlass::Kernel2<cutlass_80_sgemm>(cutlass_80_sgemm::Params)", "cutlass_80_sgemm"),
        (
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<int, 2>>>(int)",
            "flash::FlashAttnFwdSm90",
        ),
        ("ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<int>, int>(int)", "ck_tile::Rmsnorm2dFwd"),
        (
            "SenRdmaSend_8 - to rank 0, 1 [sync=a] DmaO",
            "SenRdmaSend_8 - to rank 0, 1 [sync=a] DmaO",
        ),
        ("<lambda>", "<lambda>"),
        ("void ", "void "),
        ("", ""),
    ],
)
def test_own_name(signature, name):
    assert own_name(signature) == name
