"""The server's paths, a module each: from requests to the engine's, and to an encoder."""
