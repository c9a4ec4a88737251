"""Results for people and machines: terminal, HTML and JSON. Sees nothing but `findings`."""
