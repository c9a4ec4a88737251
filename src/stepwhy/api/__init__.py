"""What programs call: `stepwhy.explain`, `watch`, `whatif` and `on_trace_ready`.

In: paths, edits, a running training. Out: results, and objects that a notebook shows.
It imports the engine, the reports and the observer's launcher, each at its first use.
The root package offers these functions; `step` is in `record.explicit_steps`.
"""
