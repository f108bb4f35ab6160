"""A bridge to other languages: JSON Lines over standard input and output of a subprocess.

``docs/bridge.md`` describes the protocol of ``python -m proxy_engine bridge``.
"""
