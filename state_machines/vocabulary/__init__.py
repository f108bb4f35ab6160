"""Vocabularies: which bytes each token of a language model stands for.

Reading order: ``vocabulary`` (the immutable result), ``byte_forms`` (from the printable form of a
token to its bytes), ``tokenizer_reader`` (from a tokenizer object to a list of tokens).
"""

from state_machines.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
