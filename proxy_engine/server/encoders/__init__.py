"""Encoders of the engine's events: a module for each interface."""
