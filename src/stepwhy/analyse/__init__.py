"""Facts of a run, computed from its trace by pure functions; `facts.Facts` holds them.

In: a `Trace`. Out: facts as numbers, sets of time and reasons, never sentences.
`activity`, `steps`, `breakdown` and `ranks` have what `Facts` is made of; `lines`, `program`,
`input`, `run` and `lateness` compute from it what fewer rules need; `answers` are the parts of a
result. Imports: `trace`, `result` for the reasons, `read.kernel_names`.
"""
