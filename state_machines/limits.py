"""Limits on work, memory and the size of inputs, in one place.

A limit on work makes a hostile schema end in an error instead of a hang. A limit on memory keeps a
long-lived process from growing. Steps are those of :mod:`state_machines.budgets`. Modules read
:data:`LIMITS` when they need a value, so a test may replace it for one module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits of the package. Each field states its unit; a comment heads each group."""

    # Budgets.

    compile_steps: int = 400_000
    """Steps to compile one schema, pattern or grammar; 99% of real schemas take less than 3,000."""

    mask_steps: int = 300_000
    """Steps to compute one mask, or to advance by one token: 1.5 seconds."""

    checkpoint_steps: int = 500
    """Steps between two calls of a checkpoint: two to five milliseconds."""

    plan_steps: int = 150_000
    """Steps to plan a completion: 0.7 seconds; 99% of real schemas take less than 3,000."""

    token_search_steps: int = 100_000
    """Steps of a search for the fewest tokens: a fraction of a second."""

    token_plan_steps: int = 4_000
    """Steps to plan a completion after one generated token: 20 ms."""

    token_advance_steps: int = 20_000
    """Steps to find the state after one generated token, before it is accepted."""

    narrowing_steps: int = 8_000
    """Steps to narrow one mask during generation; 99% take less than 2,500."""

    full_narrowing_steps: int = 60_000
    """Steps to narrow one mask outside of generation: some tenths of a second."""

    # Size of patterns, grammars and schemas.

    nested_groups: int = 60
    """Nested groups of a pattern or grammar. The parsers are recursive."""

    repetition_marks: int = 2
    """Repetition operators after one part of a grammar; each multiplies the count."""

    repetition_count: int = 1_000_000
    """A bound of a repetition in a grammar."""

    source_characters: int = 4_000_000
    """Characters of a text that is quoted from; a character takes 20 to 30 bytes."""

    token_ranges: int = 1_000
    """Ranges of token numbers in one set of tokens of a grammar."""

    ignored_terminals: int = 100
    """``%ignore`` directives of a grammar."""

    counted_quotes: int = 1000
    """Occurrences of a quote in its source that are counted."""

    separated_states: int = 1_000
    """States of lexers that are visited to find whether longest match can leave no text."""

    class_ranges: int = 50_000
    """Ranges and single characters of one character class of a grammar."""

    adjacent_optional_parts: int = 100
    """Different optional parts in a row. Each may come next, so transitions grow with them."""

    shortest_text_bytes: int = 1_000_000
    """Bytes of the shortest text of a grammar."""

    unrolled_copies: int = 500
    """Copies of bodies to which a pattern's repetitions with assertions are unrolled."""

    type_alternatives: int = 1024
    """Alternatives of one JSON type in the normal form of a schema."""

    union_clauses: int = 64
    """Clauses to which a union of alternatives is converted."""

    counted_contains: int = 8
    """``contains`` keywords with counts on one array; the states are a product of the counts."""

    array_states: int = 20_000
    """States visited to decide whether an array can satisfy its ``contains`` keywords."""

    listed_values: int = 64
    """Items of an array with ``uniqueItems`` up to which different values are listed."""

    listing_steps: int = 10_000
    """Steps to list the different values of one term."""

    unevaluated_cases: int = 256
    """Cases on which the set of evaluated members of one object or array depends."""

    unevaluated_nesting: int = 100
    """Nested schemas on which that set depends. The analysis is recursive."""

    nested_emptiness_queries: int = 50
    """Emptiness questions on the stack at once. Evaluation is recursive."""

    schema_terms: int = 50_000
    """Terms visited to check a schema before a machine is built."""

    tagged_values: int = 64
    """Constants of one type by which the alternatives of ``oneOf`` are proven disjoint."""

    # Searches over states.

    emptiness_states: int = 50_000
    """States visited to decide whether an intersection, an exclusion, or a state of a grammar with
    longest match is empty."""

    endless_states: int = 1000
    """States visited to find a cycle; beyond, a language counts as finite."""

    answer_positions: int = 2000
    """Positions of an answer that are checked before generation starts."""

    # Caches of states.

    word_derivatives: int = 4096
    """Derivatives by byte strings that one node stores."""

    held_languages: int = 32
    """Languages of one kind (formats, word sets, numbers) that are held although no state is."""

    held_patterns: int = 64
    """Compiled patterns that are held although no machine is."""

    cached_ranges: int = 1 << 17
    """Ranges of code points in each cache of operations on character sets: some 16 MB."""

    transient_derivatives: int = 1024
    """Derivatives stored by each kind of node whose states do not hold on to one another."""

    machine_transient_derivatives: int = 4096
    """The same for the captured texts of one machine; an entry takes about 4 KiB."""

    machine_steps: int = 8192
    """Derivatives that matchers add to a machine before it releases them."""

    string_automaton_derivatives: int = 1 << 14
    """Derivatives stored by one automaton that finds the end of a text."""

    string_automaton_transitions: int = 1 << 12
    """States of such an automaton whose transitions are stored."""

    distinct_states: int = 256
    """Positions of an answer behind tool calls that are held."""

    constant_nodes: int = 16
    """Constants of one schema whose nodes are held although no state needs them now."""

    unfolded_objects: int = 256
    """States of one unordered object whose members are held."""

    member_facts: int = 4096
    """Names and states of one object about which facts are stored."""

    language_words: int = 4096
    """Words whose membership in one language is stored."""

    memo_words: int = 512
    """Words of a set up to which its language is cached by the words."""

    # Caches of masks, for each vocabulary.

    mask_bytes: int = 48 << 20
    """Bytes of masks, as token ids."""

    dense_mask_bytes: int = 48 << 20
    """Bytes of masks, as boolean arrays."""

    token_array_bytes: int = 16 << 20
    """Bytes of token id arrays that masks share."""

    lexeme_walk_bytes: int = 16 << 20
    """Bytes of walks of lexemes other than texts."""

    lexer_walk_bytes: int = 32 << 20
    """Bytes of walks of the lexers of grammars."""

    text_walk_bytes: int = 24 << 20
    """Bytes of walks of texts."""

    walks_per_language: int = 512
    """Walks of one language, one for each bound on its length."""

    mask_endings: int = 512
    """Lists of names for which the tokens that end them are stored."""

    narrow_lexemes: int = 512
    """Lexemes for which it is stored whether few tokens begin them."""

    trie_texts: int = 20_000
    """Texts whose vertex in a trie of tokens is stored."""

    character_sets: int = 1024
    """Character sets whose arrays over the characters of a vocabulary are stored."""

    json_string_starts: int = 16
    """States within an escape or a character in which a walk of JSON strings may start."""

    json_string_leads: int = 16
    """Byte strings that may precede the text of a JSON string."""

    bounded_texts: int = 256
    """Texts with clipped bounds that are held; no state holds them."""

    unbounded_texts: int = 32
    """Texts without their bounds that are held; no state holds them."""

    text_distances: int = 512
    """Texts whose distances to the end are stored."""

    head_walks: int = 2048
    """Heads of states whose walks over the trie are stored."""

    suffix_answers: int = 4
    """Continuations for which one walk stores which suffixes they accept."""

    # Work on masks.

    limited_states: int = 16_384
    """States of the automaton of a state that limits tokens."""

    trie_walk_states: int = 2048
    """States of the automaton that replaces a long scalar walk over the trie."""

    walked_configurations: int = 64
    """Configurations of a state that are walked separately; more are walked together."""

    factored_parts: int = 2048
    """Parts of a state visited to factor out common beginnings."""

    # Finite choices.

    choice_options: int = 256
    """Options of a finite choice."""

    choice_bytes: int = 512
    """Bytes of an option, with the forced text before it."""

    choice_steps: int = 4_000
    """Steps to find the options of one state: 20 ms."""

    states_without_choice: int = 1 << 14
    """States that are cached as beginning with no finite choice."""

    listed_choices: int = 1 << 13
    """Words of lexemes that are stored, in all."""

    # Explanations.

    explanation_steps: int = 20_000
    """Steps to describe in words what may follow a text: 0.1 seconds."""

    # Completion.

    completion_tokens: int = 1 << 17
    """Tokens of searched plans that are cached, in all."""

    plans: int = 1 << 12
    """States whose plan is cached."""

    completion_bytes: int = 1 << 18
    """Bytes of a text that completes an output; longer ones are counted, and not written."""

    completion_texts: int = 1 << 16
    """States whose completing text is cached."""

    completion_weights: int = 1 << 14
    """States for which a lower bound on the weight of that text is cached."""

    completion_improvement_steps: int = 20_000
    """Steps of one search after which the first text found is taken."""

    captured_words: int = 2000
    """Words that are tried where the continuation depends on the word."""

    captured_word_bytes: int = 1 << 14
    """Bytes of such a word."""

    short_words: int = 4096
    """Texts for which a short word is cached."""

    word_states: int = 20_000
    """States visited to find one word."""

    better_word_states: int = 32
    """States visited to find a better word when one is known."""

    word_nesting: int = 40
    """Nested unions and repetitions whose words are composed; beyond, a word is searched for."""

    repeated_characters: int = 4096
    """Characters of a repetition that is spelled out at once."""

    word_branches: int = 12
    """Branches of a state that are considered as beginnings of such a text."""

    word_detour_bytes: int = 4
    """Bytes by which such a branch may be longer than the shortest one."""

    word_detour_states: int = 1024
    """States visited after the shortest branch was found."""

    visits_per_state: int = 128
    """Visits of one state during the enumeration of words."""

    weighed_texts: int = 8192
    """Texts whose weight in tokens is cached."""

    segmentations: int = 1 << 15
    """Segmentations of shared texts that are cached, and contexts of these."""

    narrowed_walks: int = 12
    """Walks of lexemes cached to narrow masks: an int32 for each token."""

    narrowed_tokens: int = 2048
    """Tokens that are tried separately when a mask is narrowed."""

    # Files and messages.

    vocabulary_files: int = 8
    """Files of a vocabulary cache directory."""

    vocabulary_header_bytes: int = 32 << 20
    """Bytes of the header of a vocabulary file."""

    message_characters: int = 200
    """Characters of a pattern or reference that an error message quotes."""


LIMITS = Limits()
"""The limits in force."""
