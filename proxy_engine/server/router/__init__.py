"""Several servers behind one port: a router, and the processes it forwards to."""
