"""A server that lets programs with a language model ask about recorded runs (`stepwhy mcp`).

It speaks the Model Context Protocol. `catalog` describes the tools, `tools` answers them, and
`server` connects both to the protocol. Each call runs in a process of its own (`child`, `work`),
which ends with the call: when it is cancelled, takes too long or runs out of memory, the server
goes on. The server only reads, and only below the folders that the user named.

Source: https://modelcontextprotocol.io/specification (tools, cancellation, progress).
"""
