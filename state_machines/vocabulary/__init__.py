"""Vocabularies: the bytes of each token of a language model.

Reading order: ``vocabulary`` (the result), ``byte_forms`` (from a printable token to its bytes),
``tokenizer_reader`` (from a tokenizer to its tokens). For files: ``tables`` (arrays derived
from a vocabulary), ``array_file`` (the format), ``fingerprint`` (the identity of a tokenizer) and
``disk_cache``.
"""

from state_machines.vocabulary.vocabulary import LAYOUT, Vocabulary

__all__ = ["LAYOUT", "Vocabulary"]
