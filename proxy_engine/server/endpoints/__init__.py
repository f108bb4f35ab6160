"""The endpoints: each converts requests for the engine and chooses an encoder."""
