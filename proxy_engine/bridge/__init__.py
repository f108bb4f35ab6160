"""A bridge to other languages: JSON Lines over standard input and output of a subprocess.

``docs/bridge.md`` describes the protocol of ``python -m proxy_engine bridge``, which is that of
small bridges around mlx-lm. Programs that need more use the server on a Unix socket
(``serve --uds``).
"""
