"""Texts with a secret in each, and what of them must never be shown.

Tokens are put together here so that no scanner takes this file for a leak.
"""

from __future__ import annotations

USER = "zyxuser4711"
HOST = "zyxhost-4711"
VALUE = "Zq9vNw4LkTr7"
ENVIRONMENT = {
    "USER": USER,
    "LOGNAME": USER,
    "HOME": f"/mnt/people/{USER}",
    "BUCKET_ACCESS_KEY": VALUE,
}

_MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
_UPPER = "IOSFODNN7EXAMPLE"
_HEX = "0123456789abcdef0123456789abcdef01234567"
_PART = "eyJ" + "hbGciOiJIUzI1NiIsInR5cCI6"

MARKERS = {
    "hugging-face": ("hf" + "_" + _MIXED, _MIXED),
    "hugging-face-letters": ("hf" + "_" + "abcdefghijklmnopqrstuvwxyzabcdefgh", "mnopqrstuv"),
    "github": ("ghp" + "_" + _MIXED, _MIXED),
    "github-server": ("ghs" + "_" + _MIXED, _MIXED),
    "github-fine-grained": ("github" + "_pat_" + _MIXED, _MIXED),
    "gitlab": ("glpat" + "-" + _MIXED[:20], _MIXED[:20]),
    "aws-id": ("AKIA" + _UPPER, _UPPER),
    "aws-temporary-id": ("ASIA" + _UPPER, _UPPER),
    "aws-key": ("AWS_SECRET_ACCESS_KEY=wJalr/" + _MIXED, _MIXED),
    "google-key": ("AIza" + "SyA" + _MIXED[:32], _MIXED[:32]),
    "google-token": ("ya29" + "." + _MIXED, _MIXED),
    "openai": ("sk" + "-proj-" + _MIXED, _MIXED),
    "openai-old": ("sk" + "-" + _MIXED, _MIXED),
    "anthropic": ("sk" + "-ant-api03-" + _MIXED, _MIXED),
    "slack": ("xoxb" + "-123456789012-" + _MIXED, _MIXED),
    "slack-hook": ("hooks.slack.com/services/T0/B0/" + _MIXED, _MIXED),
    "wandb": ("wandb" + "_v1_" + _MIXED, _MIXED),
    "wandb-old": ("wandb login " + _HEX, _HEX),
    "wandb-variable": ("WANDB_API_KEY=" + _HEX, _HEX),
    "neptune": ("eyJ" + "hcGlfYWRkcmVzcyI6" + _MIXED, _MIXED),
    "comet": ("COMET_API_KEY=" + _MIXED[:25], _MIXED[:25]),
    "jwt": (f"{_PART}.{_PART}.{_MIXED}", _MIXED),
    "azure-sas": ("?sv=2022-11-02&sig=" + _MIXED + "%3D&se=1", _MIXED),
    "azure-account": ("AccountKey=" + _MIXED + "==;EndpointSuffix=x", _MIXED),
    "pem": (f"-----BEGIN PRIVATE KEY----- {_MIXED} -----END PRIVATE KEY-----", _MIXED),
    "databricks": ("dapi" + _HEX[:32], _HEX[:32]),
    "nvidia": ("nvapi" + "-" + _MIXED, _MIXED),
    "bearer": ("Authorization: Bearer zq9vn", "zq9vn"),
    "bearer-alone": ("bearer zq9vnw4lk", "zq9vnw4lk"),
    "basic": ("Basic enE5dm53NGw6emE=", "enE5dm53NGw6emE"),
    "url-login": ("https://me:zq9vn@example.org/data", "zq9vn"),
    "login": ("me:zq9vnw4@example", "zq9vnw4"),
    "signed-query": ("https://example.org/x?X-Amz-Signature=" + _HEX + "&n=1", _HEX),
    "password": ("password=zq9vn", "zq9vn"),
    "environment": ("MY_PRIVATE_TOKEN=zq9vnw", "zq9vnw"),
    "json": ('{"api_key": "zq9v nw"}', "zq9v"),
    "escaped-json": (r"{\"api_key\": \"zq9v nw\"}", "zq9v"),
    "yaml": ("client_secret: zq9vnw", "zq9vnw"),
    "home-linux": ("/home/zyxother/train/x.py(3): f", "zyxother"),
    "home-mac": ("/Users/zyxother/train/x.py(3): f", "zyxother"),
    "home-windows": ("C:\\Users\\zyxother\\train\\x.py(3): f", "zyxother"),
    "home-wsl": ("/mnt/c/Users/zyxother/x.py(3): f", "zyxother"),
    "home-own": (f"/mnt/people/{USER}/x.py(3): f", USER),
    "user": (f"logs of {USER}_7", USER),
    "host": (f"node {HOST}:29500", HOST),
    "email": ("mail zyx.other+me@example.org", "zyx.other"),
    "address": ("connect to 10.23.4.5", "10.23.4.5"),
    "address-port": ("tcp://93.184.216.34:29500", "93.184.216.34"),
    "address-private": ("peer 192.168.7.9", "192.168.7.9"),
    "value-of-variable": (f"x{VALUE}x", VALUE),
}
"""By name: a text, and what of it must not be shown."""

HARMLESS = (
    "train.py --num-tokens 512 --tokenizer bert --keys 8",
    "multi-key attention, scaled-key query",
    "triton_poi_fused_add_native_layer_norm_relu_0",
    "triton_per_fused__softmax_backward_data_mul_1d2e3f",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEENS_6detail5Array",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn",
    "fusion_broadcast_multiply_reduce_fusion.123_0123456789abcdef0123456789abcdef01234567",
    "/opt/src/torch/0123456789abcdef0123456789abcdef01234567/ops.py(12): forward",
    "/scratch/torchinductor/cx/cxq2wq7y5t3l6m4n8p0r2s4u6w8y0a1c3e5g7i9k.py(41): call",
    "%token.5 = token[] after-all()",
    "token=%after-all.3",
    "max_tokens=4096 num_tokens: 512 eos_token=</s> pad_token='[PAD]' next_token=17",
    "key=value sort_key=name cache_key: block attention.key: layer",
    "model/transformer/key:0",
    "model/password:0",
    "transformer.layers.0.self_attn.key_padding_mask",
    "aten::_scaled_dot_product_flash_attention",
    "loc:@weights/Adam",
    "^colocate:@weights",
    "memcpy@GLIBC_2.14 memcpy@@GLIBC_2.2.5",
    "cuDNN 8.9.7.29 CUDA 12.4.1.003 driver 535.104.05",
    "Step 3: Basic block 12",
    "tf_op_layer_basic_rnn",
    "hf_transformers_model_forward_pass_long_name",
    "task-0123456789abcdefghijklmn",
    "ProfilerStep#12",
    "std::pair<int, long>::operator=(std::pair<int, long>&&)",
    "127.0.0.1:6006",
    "/job:worker/replica:0/task:0/device:GPU:0",
    "IteratorGetNext/0.5/1.25.3",
    "PWD=/work/train",
    "password=None, token=None, api_key=[redacted]",
)
"""Names as traces have them, and texts that only look like secrets."""
