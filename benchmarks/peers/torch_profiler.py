"""What torch-tb-profiler says of the device of a trace, as JSON on the last line."""

import inspect
import json
import sys

from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.trace import EventTypes

takes = inspect.signature(RunProfileData.parse).parameters
more = {"cache_dir": None} if "cache_dir" in takes else {}
profile = RunProfileData.parse("worker", None, sys.argv[1], **more)
profile = profile[0] if isinstance(profile, tuple) else profile
kernels = [e for e in profile.events if e.type == EventTypes.KERNEL]
kernel_us = sum(e.duration for e in kernels)
print(json.dumps({"kernels": len(kernels), "kernel_ns": 1000 * float(kernel_us)}))
