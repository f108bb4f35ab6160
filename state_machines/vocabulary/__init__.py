"""Vocabularies: the bytes of each token of a language model.

Reading order: ``vocabulary`` (the result), ``byte_forms`` (from a printable token to its bytes),
``tokenizer_reader`` (from a tokenizer to its tokens, and its fingerprint), ``array_file`` (arrays
derived from a vocabulary, and their file).
"""

from state_machines.vocabulary.vocabulary import LAYOUT, PerVocabulary, Vocabulary

__all__ = ["LAYOUT", "PerVocabulary", "Vocabulary"]
