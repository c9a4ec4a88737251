"""What Holistic Trace Analysis says of the device of a trace, as JSON on the last line."""

import json
import sys

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
frame = analysis.t.get_trace(0)
names = analysis.t.symbol_table.get_sym_table()
on_device = frame[frame["stream"].ne(-1)]
is_kernel = on_device["cat"].map(lambda c: names[c].lower() == "kernel")
row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
busy_us = sum(v for k, v in row.items() if k.startswith(("compute_time(", "non_compute_time(")))
print(json.dumps({"kernels": int(is_kernel.sum()), "busy_ns": 1000 * float(busy_us)}))
