"""The compiled scanner of large files; import `records` through `base.columns.compiled`."""
