"""Chrome traces that `stepwhy export` wrote."""
