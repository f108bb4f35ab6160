"""Vocabularies: which bytes each token of a language model stands for.

Reading order: ``vocabulary`` (the immutable result), ``byte_forms`` (from the printable form of a
token to its bytes), ``tokenizer_reader`` (from a tokenizer object to a list of tokens); for
vocabularies as files ``tables`` (what is derived from a vocabulary and saved along with it),
``array_file`` (the format) and ``fingerprint`` (by what a tokenizer is known again).
"""

from state_machines.vocabulary.vocabulary import LAYOUT, Vocabulary

__all__ = ["LAYOUT", "Vocabulary"]
