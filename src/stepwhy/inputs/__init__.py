"""Opening what the user named, and the files beside it.

Whoever wrote a trace or a run directory may have put anything beside it: a pipe, a device, a link
to a private file. `opening.open_input` opens traces, `side_files.read_side_file` reads all other
files, and no other code opens them.
"""
