"""The compiled scanner of large profiles; import it through `stepwhy.columns.compiled`."""
