"""Numbers of a run as metrics, for monitoring systems.

`model` holds the numbers of a run, `families` their names, units and help. The other modules
publish them: `prometheus` as text, `textfile` in a file, `endpoint` at an address of this machine,
and `otlp` through OpenTelemetry. Only the publishers need further packages.
"""
