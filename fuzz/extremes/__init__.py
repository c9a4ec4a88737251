"""Small valid files with extreme content: as many devices, names or steps as fit into them."""
