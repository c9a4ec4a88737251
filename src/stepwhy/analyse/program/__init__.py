"""What is known of the program: its graph, parameters, operations and calls of sessions."""
