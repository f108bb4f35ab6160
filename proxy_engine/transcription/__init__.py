"""Transcription of speech by the models of mlx-audio."""
