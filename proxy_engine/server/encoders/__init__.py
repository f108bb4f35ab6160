"""Encoders of the engine's events, one for each endpoint that generates."""
