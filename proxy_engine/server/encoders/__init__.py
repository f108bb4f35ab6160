"""The engine's events as each endpoint writes them."""
