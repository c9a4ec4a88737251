"""Reports: in the terminal, as a page, as Markdown, for CI; exports to other tools, and metrics.

In: results; `export` also reads traces and facts. Out: text, HTML, files, samples.
`terminal` and `html` (the page) have their parts, `ci` the formats of build servers; the modules
beside them are what these share. Imports: `result` and below; only `export` imports `analyse`.
"""
