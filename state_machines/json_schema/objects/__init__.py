"""Objects: shapes, clauses, and how an object goes on."""
