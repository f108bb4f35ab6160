"""Objects: shapes, clauses, names and nodes."""
