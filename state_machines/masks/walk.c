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

EXPORTED const int32_t version = 7;

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
