"""A bridge for other languages: JSON Lines over standard input and output.

``python -m proxy_engine bridge`` is started as a subprocess; ``docs/bridge.md`` is the protocol.
"""
