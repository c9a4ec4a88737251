"""Many runs on one page: a small web server for a folder of runs.

`scan` finds runs by their names and times, `summaries` reads what the list shows of them, and
`store` keeps that in a file, so that only new and changed runs are read. `access` decides who may
read and write. `app` connects addresses with `pages`, which fills the templates.
"""
