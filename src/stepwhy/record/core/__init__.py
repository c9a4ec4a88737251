"""What all observers share: the recorder, the registry, clocks, masking, lines of the program."""
