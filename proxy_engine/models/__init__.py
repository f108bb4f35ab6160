"""Finding, converting and loading language models."""
