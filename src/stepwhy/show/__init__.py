"""Reports: in the terminal, as a page, as Markdown, for CI; exports to other tools, and metrics.

In: results; `export` and `timeline` also read traces and facts. Out: text, HTML, files, samples.
`sections` makes blocks of a result, which `terminal`, `html` (the page) and `markdown` render; `ci`
has the formats of build servers; the modules beside them are what these share. `timeline` packs
what the page draws, within its limits.
Imports: `result` and below; only `export` and `timeline` import `analyse`.
"""
