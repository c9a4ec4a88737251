"""The compiled scanner of large profiles; import it through `stepwhy.base.columns.compiled`."""
