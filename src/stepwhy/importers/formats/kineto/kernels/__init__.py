"""The compiled scanner of large files; import `records` through `stepwhy.columns.compiled`."""
