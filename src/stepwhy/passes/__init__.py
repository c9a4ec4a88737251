"""Pure functions from a trace to facts: no printing, no plotting, no formats."""
