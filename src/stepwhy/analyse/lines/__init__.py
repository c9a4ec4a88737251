"""The closed breakdown of a step by line of the program, and what it is made from."""
