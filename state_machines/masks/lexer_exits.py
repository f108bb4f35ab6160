"""Tokens that leave a lexeme of a grammar for a language that is no part of its lexer.

Such a language is a nested terminal, or what follows the grammar.
"""

from __future__ import annotations

from state_machines.masks.lexeme_tokens import LeavingTokens, LexemeTokens, tokens_by_suffix
from state_machines.masks.lexer_walks import LexemeEnds, LexerTokens, LexerWalks
from state_machines.masks.token_sets import NO_TOKENS
from state_machines.masks.token_trie import TokenTrie


def leaving(group: LexemeEnds, trie: TokenTrie, first: int) -> LeavingTokens:
    """Return the tokens that leave a lexeme where the lexer cannot continue it.

    Args:
        group: The vertices after the lexeme.
        trie: The trie of the walk.
        first: The set of the bytes after the lexeme.
    """
    first &= group.first
    known = group.leaving.get(first)
    if known is None:
        vertices = [v for v in group.vertices.tolist() if first >> trie.byte_at(v) & 1]
        # All threads must use one object, since the keys of masks contain its id.
        known = group.leaving.setdefault(first, tokens_by_suffix(trie, vertices))
    found: LeavingTokens = known
    return found


def exits(walk: LexerTokens, walks: LexerWalks, complete: int, first: int) -> LeavingTokens:
    """Return the tokens that leave a lexeme of some terminals, also where the lexer continues it.

    Args:
        walk: The walk of the lexeme.
        walks: The walks of the trie.
        complete: The terminals, as a set.
        first: The set of the bytes after the lexeme; more may be included.
    """
    known = walk.exits.get(complete)
    if known is None:
        beyond = walks.trie.children_of(walk.ends(walks)[complete])
        made = LexemeTokens(NO_TOKENS, beyond, walks.trie)
        known = walk.exits.setdefault(complete, made)
    found: LeavingTokens = known.leaving(first)
    return found
