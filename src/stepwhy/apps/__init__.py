"""Programs around results, each with a command: a web page, a server for agents, SQL, a live view.

In: folders of runs, or a job that is still running. Out: pages, answers, tables.
`serve` is `stepwhy serve`, `agents` is `stepwhy mcp`, `sql` is `stepwhy sql`, `top` is
`stepwhy top`. They import the engine and everything below it, and not each other.
"""
