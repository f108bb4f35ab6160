"""Transcription of speech by the models of mlx-audio.

Reading order: ``options``, ``results``; ``transcriber`` (the functions behind
``engine.transcribe``), ``spoken`` (constrained transcripts); ``loading``; ``whisper`` (the model,
and which parts are mlx-audio's), ``windows`` (mlx-audio's ``generate``), ``whisper_decoder`` (its
decoder in the engine's loop); ``parakeet``.
"""
