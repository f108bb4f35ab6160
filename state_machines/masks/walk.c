/* Walks of automata over tries: the inner loops of kernel.py and descent.py.
 *
 * Plain C that includes no header of Python, so building it only needs a compiler.
 */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

EXPORTED const int32_t version = 8;

/* Write the state of an automaton at every vertex of a trie, beginning with `from`.
 *
 * Vertices are sorted by level, so parents precede children; parent[v], byte[v]. target[256 * s + b]
 * follows state s by byte b; 0 is dead. kind[s] < 0: that row is unknown. Returns the first vertex
 * whose parent has such a state, or `size` at the end. All vertices are visited, dead ones included,
 * since sequential access to memory is fast.
 */
EXPORTED int32_t walk(const int32_t *parent, const uint8_t *byte, int32_t size,
                      const int32_t *target, const int32_t *kind, int32_t *states, int32_t from)
{
    for (int32_t vertex = from; vertex < size; vertex++) {
        int32_t state = states[parent[vertex]];
        if (state && kind[state] < 0)
            return vertex;
        states[vertex] = target[256 * state + byte[vertex]];
    }
    return size;
}

/* A vertex of a trie of tokens. The tokens at and below it have the ranks `low` to before `high`;
 * those before `end` end at it. `classes`: the classes of the bytes below it, as a set. One vertex
 * is in one line of the cache.
 */
typedef struct {
    int32_t first_child, end_child, low, end, high, byte;
    uint64_t classes;
} trie_vertex;

typedef struct {
    const trie_vertex *vertices;
    const int32_t *ids;
} token_trie;

/* The states of lexers. target[256 * s + b] follows state s by byte b; 0 is dead. kind[s] is -1 if
 * that row is unknown, 0 if no lexeme may end in s, else the terminals of which it may be one.
 * `loops`: the classes of bytes by which s follows s.
 */
typedef struct {
    const int32_t *target, *kind;
    const uint64_t *loops;
} lexer;

/* A walk, and its results.
 *
 * begin: the vertices below which the walk begins, in state `start`; it reads their own bytes first,
 * unless `is_below`. With `longest`, none of them is below another.
 * vertices, states: a stack of `pending` vertices to visit. late_vertices, late_states: those whose
 * states have unknown rows.
 * bits: one for each token that is found; few: the first of their ids.
 * leaving: the vertices with the first byte after a lexeme, and the kinds of the states before it:
 * those without a target, or all if not `longest`.
 * visited: if wanted, all vertices with their states.
 * reached: the states that were reached; number[s] is one more than the index of s there.
 * seen: the states below 64 in which a vertex was reached, if `stamp` is `walk`.
 */
typedef struct {
    const int32_t *begin;
    int32_t *vertices, *states, *late_vertices, *late_states;
    uint8_t *bits;
    int32_t *few, *leaving, *kinds, *visited, *visited_states, *reached, *number;
    uint64_t *seen;
    uint32_t *stamp;
    int32_t begins, begun, start, is_below, longest, walk;
    int32_t pending, late, max_late;
    int32_t found, max_few, leaves, max_leaves, visits, max_visits, states_reached;
} descent;

static void add_tokens(const token_trie *trie, descent *walk, int32_t rank, int32_t end)
{
    for (; rank < end; rank++) {
        int32_t id = trie->ids[rank];
        walk->bits[id >> 3] |= (uint8_t)(1u << (id & 7));
        if (walk->found < walk->max_few)
            walk->few[walk->found] = id;
        walk->found++;
    }
}

static int is_seen(descent *walk, int32_t vertex, int32_t number)
{
    uint64_t bit = number < 64 ? (uint64_t)1 << number : 0;
    if (walk->stamp[vertex] != (uint32_t)walk->walk) {
        walk->stamp[vertex] = (uint32_t)walk->walk;
        walk->seen[vertex] = 0;
    }
    if (walk->seen[vertex] & bit)
        return 1;
    walk->seen[vertex] |= bit;
    return 0;
}

/* Add the tokens at a vertex that is reached in a state. Those below it are added at once if the
 * state loops on all their bytes and no lexeme leaves there; otherwise the vertex is to be visited.
 */
static void reach(const token_trie *trie, const lexer *lexer, descent *walk, int32_t vertex,
                  int32_t state)
{
    const trie_vertex *at = trie->vertices + vertex;
    int has_children = at->first_child < at->end_child;
    if (!walk->number[state]) {
        walk->reached[walk->states_reached++] = state;
        walk->number[state] = walk->states_reached;
    }
    if (!walk->longest && has_children && is_seen(walk, vertex, walk->number[state]))
        return;
    if (!walk->visited && !(at->classes & ~lexer->loops[state]) &&
        (!has_children || walk->longest || lexer->kind[state] == 0)) {
        add_tokens(trie, walk, at->low, at->high);
        return;
    }
    add_tokens(trie, walk, at->low, at->end);
    /* The row of a state is not needed where no token goes on. */
    if (walk->visited && !has_children && walk->visits < walk->max_visits) {
        walk->visited[walk->visits] = vertex;
        walk->visited_states[walk->visits++] = state;
        return;
    }
    walk->vertices[walk->pending] = vertex;
    walk->states[walk->pending++] = state;
}

/* Visit the vertices below others, as far as a lexer is alive there.
 *
 * The row of `start` must be known. Returns 0 at the end; otherwise the call is to be repeated after
 * full arrays have been emptied, the rows of late states computed, and late vertices put back.
 */
EXPORTED int32_t descend(const token_trie *trie, const lexer *lexer, descent *walk)
{
    for (; walk->begun < walk->begins; walk->begun++) {
        int32_t vertex = walk->begin[walk->begun], state = walk->start;
        if (walk->is_below) {
            walk->vertices[walk->pending] = vertex;
            walk->states[walk->pending++] = state;
        } else if ((state = lexer->target[256 * state + trie->vertices[vertex].byte])) {
            reach(trie, lexer, walk, vertex, state);
        }
    }
    while (walk->pending) {
        int32_t vertex = walk->vertices[walk->pending - 1];
        int32_t state = walk->states[walk->pending - 1];
        int32_t child = trie->vertices[vertex].first_child;
        int32_t end = trie->vertices[vertex].end_child;
        int32_t kind = lexer->kind[state];
        const int32_t *target = lexer->target + 256 * state;
        if (kind < 0) {
            if (walk->late == walk->max_late)
                return 1;
            walk->late_vertices[walk->late] = vertex;
            walk->late_states[walk->late++] = state;
            walk->pending--;
            continue;
        }
        if (walk->leaves + (end - child) > walk->max_leaves || walk->visits == walk->max_visits)
            return 1;
        walk->pending--;
        if (walk->visited) {
            walk->visited[walk->visits] = vertex;
            walk->visited_states[walk->visits++] = state;
        }
        for (; child < end; child++) {
            int32_t below = target[trie->vertices[child].byte];
            if (below)
                reach(trie, lexer, walk, child, below);
            if (kind && !(below && walk->longest)) {
                walk->leaving[walk->leaves] = child;
                walk->kinds[walk->leaves++] = kind;
            }
        }
    }
    return walk->late > 0;
}

/* A quote: texts that occur in a source. order: positions in the order of the texts there; those
 * from `low` to before `high` are walked, from `depth` characters on. text: the characters by number,
 * -1 at the end. The spellings of character c are first_spelling[c] to before first_spelling[c + 1],
 * the bytes of spelling s are first_byte[s] to before first_byte[s + 1]. is_end: whether a quote may
 * end at a position, or null. limit: by position, the last one where a quote from there may end, or
 * null.
 */
typedef struct {
    const int32_t *order, *text, *first_spelling, *first_byte;
    const uint8_t *bytes, *is_end;
    const int32_t *limit;
    const uint8_t *terminator;
    int32_t *stack;
    int32_t low, high, depth, min_chars, terminator_size, vertex, pending;
} quotation;

static int32_t child_of(const token_trie *trie, int32_t vertex, int32_t byte)
{
    int32_t low = trie->vertices[vertex].first_child, high = trie->vertices[vertex].end_child;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (trie->vertices[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < trie->vertices[vertex].end_child && trie->vertices[low].byte == byte)
        return low;
    return -1;
}

static int has_children(const token_trie *trie, int32_t vertex)
{
    return trie->vertices[vertex].first_child < trie->vertices[vertex].end_child;
}

static void push(quotation *quote, int32_t vertex, int32_t low, int32_t high, int32_t length)
{
    int32_t *top = quote->stack + 4 * quote->pending++;
    top[0] = vertex, top[1] = low, top[2] = high, top[3] = length;
}

/* Follow the bytes of a spelling from one on. Hexadecimal digits of an escape have either case. */
static void spell(const token_trie *trie, quotation *quote, descent *walk, int32_t vertex,
                  const uint8_t *bytes, int32_t from, int32_t size, const int32_t *group)
{
    int is_digit = from > 1 && bytes[0] == '\\' && bytes[from] >= 'a' && bytes[from] <= 'f';
    for (int upper = 0; upper <= is_digit; upper++) {
        int32_t child = child_of(trie, vertex, bytes[from] - (upper ? 'a' - 'A' : 0));
        if (child < 0)
            continue;
        add_tokens(trie, walk, trie->vertices[child].low, trie->vertices[child].end);
        if (!has_children(trie, child))
            continue;
        if (from + 1 < size)
            spell(trie, quote, walk, child, bytes, from + 1, size, group);
        else
            push(quote, child, group[0], group[1], group[2]);
    }
}

static int32_t character(const quotation *quote, int32_t index, int32_t length)
{
    return quote->text[quote->order[index] + quote->depth + length];
}

/* Return the end of the positions with the same next character as the first one. */
static int32_t end_of_group(const quotation *quote, int32_t low, int32_t high, int32_t length)
{
    int32_t wanted = character(quote, low, length), step = 1;
    while (low + step < high && character(quote, low + step, length) == wanted) {
        low += step;
        step *= 2;
    }
    if (low + step < high)
        high = low + step;
    while (low + 1 < high) {
        int32_t middle = low + (high - low) / 2;
        if (character(quote, middle, length) == wanted)
            low = middle;
        else
            high = middle;
    }
    return low + 1;
}

/* Whether a quote from one of some positions has a number of characters, or, if `ends`, may end
 * after them. */
static int reaches(const quotation *quote, int32_t low, int32_t high, int32_t length, int ends)
{
    if (ends && length < quote->min_chars)
        return 0;
    if (!quote->limit && !(ends && quote->is_end))
        return 1;
    for (; low < high; low++) {
        int32_t start = quote->order[low] + quote->depth;
        if (quote->limit && start + length > quote->limit[start])
            continue;
        if (!ends || !quote->is_end || quote->is_end[start + length])
            return 1;
    }
    return 0;
}

/* Visit the vertices below one that the texts of a quote reach. Its tokens are added to the walk;
 * `leaving` gets the vertices where the quote and its terminator may end.
 */
EXPORTED void quote(const token_trie *trie, quotation *quote, descent *walk)
{
    push(quote, quote->vertex, quote->low, quote->high, 0);
    while (quote->pending) {
        const int32_t *top = quote->stack + 4 * --quote->pending;
        int32_t vertex = top[0], low = top[1], high = top[2], length = top[3];
        if ((length || quote->terminator_size) && reaches(quote, low, high, length, 1)) {
            int32_t end = vertex;
            for (int32_t at = 0; at < quote->terminator_size && end >= 0; at++) {
                end = child_of(trie, end, quote->terminator[at]);
                if (end >= 0)
                    add_tokens(trie, walk, trie->vertices[end].low, trie->vertices[end].end);
            }
            if (end >= 0)
                walk->leaving[walk->leaves++] = end;
        }
        while (low < high) {
            int32_t next = character(quote, low, length);
            int32_t group[3] = {low, end_of_group(quote, low, high, length), length + 1};
            low = group[1];
            if (next < 0 || !reaches(quote, group[0], group[1], length + 1, 0))
                continue;
            int32_t spelling = quote->first_spelling[next];
            for (; spelling < quote->first_spelling[next + 1]; spelling++) {
                int32_t first = quote->first_byte[spelling];
                spell(trie, quote, walk, vertex, quote->bytes + first, 0,
                      quote->first_byte[spelling + 1] - first, group);
            }
        }
    }
}
