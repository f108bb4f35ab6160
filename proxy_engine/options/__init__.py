"""Options of requests: their declaration, and models derived from it."""
