"""NumPy columns of millions of rows: how they are stored, grouped, ordered and nested.

Everything about representation lives here, and nothing about traces or file formats:

- `chunks`, `growing`, `narrow`, `memory`: columns that grow, in few bytes, processed in chunks;
- `strings`, `interning`: packed strings and their numbers;
- `groups`, `sums`, `order`: grouping, summing and ordering rows;
- `intervals`, `nesting`, `lanes`: sets of time, call trees, and rows for intervals that overlap.

Modules that begin with an underscore are for this package alone; `lint-imports` checks that.
"""
