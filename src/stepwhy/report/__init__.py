"""Reports in the terminal, as HTML and as JSON. Imports only `findings`."""
