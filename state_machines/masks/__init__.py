"""Token masks: which tokens of a vocabulary may come next in a state.

A token is allowed if the derivative of the state by its bytes is not empty. ``mask_maker`` computes
masks, ``mask_store`` caches them.

``Matcher.mask_cost()`` names the routes that a mask took. ``mask_maker`` chooses the route for each
part of a state; the module in the table walks it.

===============  ===================  ============================================================
route            module               typical cause of a slow mask
===============  ===================  ============================================================
``vertices``     ``trie_walk``        a head that allows few tokens by its first bytes, and many
                                      after a token or two; cheap otherwise: members of objects,
                                      literals, the bytes between values
``lexeme``       ``lexemes``          the first mask in a lexeme, which walks the vocabulary once:
                                      a string with a new pattern, format or list of words; later
                                      masks check only the tokens that leave the lexeme
``quote``        ``quote_walks``      a short text that occurs at many positions of the source;
                                      these masks are not cached
``grammar``      ``grammar_walks``    a new set of terminals of a Lark grammar: each set walks the
                                      lexer once, and branches below every lexeme that ends
``rules``        ``grammar_walks``    GBNF without a lexer, whose ambiguous rules keep many stacks
``whole state``  ``trie_walk``        a state with too many configurations, such as an ambiguous
                                      grammar: one derivative of the whole state at each vertex
===============  ===================  ============================================================

``MaskCost.rows`` counts the computed rows of automata, ``MaskCost.vertices`` the visits of the
vertices of the trie: a mask with many rows computes a lexeme or grammar for the first time, a slow
mask with few rows and few vertices expands a large part of the grammar. Walks of automata run in
the compiled ``walk.c`` by ``kernel``, or in Python by ``descent``, with equal results.
"""
