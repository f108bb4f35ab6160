"""Limits on work, memory and the size of inputs that several modules share or that tests change.

A limit on work makes a hostile schema end in an error instead of a hang. A limit on memory keeps a
long-lived process from growing. A limit that concerns one module alone is a constant of that
module. Steps are those of :mod:`state_machines.budgets`. Modules read :data:`LIMITS` when they need
a value, so a test may replace it for one module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the package. Each field states its unit; a comment heads each group."""

    # Budgets.

    compile_steps: int = 300_000
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

    plan_reserve_steps: int = 40_000
    """Further steps for all plans of one text, when it begins a part for the first time: 0.2 s."""

    token_advance_steps: int = 20_000
    """Steps to find the state after one generated token, before it is accepted."""

    restriction_steps: int = 8_000
    """Steps to restrict one mask during generation; 99% take less than 2,500."""

    full_restriction_steps: int = 60_000
    """Steps to restrict one mask outside of generation: some tenths of a second."""

    # Size of patterns, grammars and schemas.

    nested_groups: int = 60
    """Nested groups of a pattern or grammar. The parsers are recursive."""

    repetition_marks: int = 2
    """Repetition operators after one part of a grammar; each multiplies the count."""

    repetition_count: int = 1_000_000
    """A bound of a repetition in a grammar."""

    source_characters: int = 4_000_000
    """Characters of a text that is quoted from; a character takes 20 to 30 bytes."""

    ignored_terminals: int = 100
    """``%ignore`` directives of a grammar."""

    class_ranges: int = 50_000
    """Ranges and single characters of one character class of a grammar."""

    adjacent_optional_parts: int = 100
    """Different optional parts in a row. Each may come next, so transitions grow with them."""

    union_clauses: int = 64
    """Clauses to which a union of alternatives is converted."""

    array_states: int = 20_000
    """States visited to decide whether an array can satisfy its ``contains`` keywords."""

    unevaluated_cases: int = 256
    """Cases on which the set of evaluated members of one object or array depends."""

    nested_emptiness_queries: int = 50
    """Emptiness questions on the stack at once. Evaluation is recursive."""

    tagged_values: int = 64
    """Constants of one type by which the alternatives of ``oneOf`` are proven disjoint."""

    # Searches over states.

    emptiness_states: int = 50_000
    """States visited to decide whether an intersection, an exclusion, or a state of a grammar with
    longest match is empty."""

    endless_states: int = 1000
    """States visited to show that a language has words of all lengths, or beyond every length."""

    # Caches of states.

    held_languages: int = 32
    """Languages of one kind (formats, word sets, numbers) that are held although no state is."""

    cached_ranges: int = 1 << 17
    """Ranges of code points in each cache of operations on character sets: some 16 MB."""

    shared_derivatives: int = 1024
    """Derivatives stored by each kind of node whose states do not hold on to one another."""

    machine_shared_derivatives: int = 4096
    """The same for the remembered texts of one machine; an entry takes about 4 KiB."""

    machine_steps: int = 8192
    """Derivatives that matchers add to a machine before it releases them."""

    shared_arguments: int = 2048
    """Tools whose compiled arguments are held although no machine has them."""

    member_facts: int = 4096
    """Names and states of one object about which facts are stored."""

    # Caches of masks, for each vocabulary.

    mask_bytes: int = 48 << 20
    """Bytes of masks, as token ids."""

    dense_mask_bytes: int = 48 << 20
    """Bytes of masks, as boolean arrays."""

    lexeme_walk_bytes: int = 16 << 20
    """Bytes of walks of lexemes other than texts."""

    state_table_bytes: int = 8 << 20
    """Bytes of a table of states that walks of one vocabulary share; it is then made anew."""

    walks_per_language: int = 512
    """Walks of one language, one for each bound on its length."""

    # Work on masks.

    trie_walk_states: int = 2048
    """States of the automaton that replaces a long scalar walk over the trie."""

    walked_configurations: int = 64
    """Configurations of a state that are walked separately; more are walked together."""

    factored_parts: int = 2048
    """Parts of a state visited to factor out common beginnings."""

    # Finite choices.

    choice_steps: int = 4_000
    """Steps to find the options of one state: 20 ms."""

    # Explanations.

    explanation_steps: int = 20_000
    """Steps to describe in words what may follow a text: 0.1 seconds."""

    # Completion.

    completion_tokens: int = 1 << 17
    """Tokens of searched plans that are cached, in all."""

    plans: int = 1 << 12
    """States whose plan is cached."""

    completion_bytes: int = 1 << 18
    """Bytes of a repeated text that completes an output; longer ones are not looked for."""

    completion_improvement_steps: int = 20_000
    """Steps of one search after which the first text found is taken."""

    remembered_words: int = 2000
    """Words that are tried where the continuation depends on the word."""

    word_states: int = 20_000
    """States visited to find one word."""

    word_nesting: int = 40
    """Nested unions and repetitions whose words are composed; beyond, a word is searched for."""

    word_branches: int = 12
    """Branches of a state that are considered as beginnings of such a text."""

    visits_per_state: int = 128
    """Visits of one state during the enumeration of words."""

    restricted_tokens: int = 2048
    """Tokens that are tried separately when a mask is restricted."""

    # Files and messages.

    message_characters: int = 200
    """Characters of a pattern or reference that an error message quotes."""


LIMITS = Limits()
"""The limits in force."""
