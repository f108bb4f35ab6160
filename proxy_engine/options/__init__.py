"""Options of requests: their declaration, and what is derived from it."""
