/* The walk of an automaton over a trie: the inner loop of automaton.py.
 *
 * Plain C that includes no header of Python, so building it only needs a compiler.
 */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

EXPORTED const int32_t version = 4;

/* Visit the vertices of a trie in order, beginning with `from`, and write their states.
 *
 * Trie: vertices are sorted by level, so parents precede children; parent[v], letter[v], depth[v].
 * Automaton: the transitions of state s are the ranges row_start[s] to before row_end[s]
 * (row_start[s] < 0: not computed yet), each first..last with its target, ascending; the shortest
 * word of s has shortest[s] letters. A vertex has state 0 (dead) if its letter has no target, or if
 * no word of at most `max_letters` letters can be completed there (INT32_MAX: no bound).
 *
 * The states of the vertices from `from` on must be zero. Returns the first vertex whose parent has
 * a state without transitions, or `size` at the end. All vertices are visited, dead ones included,
 * since sequential access to memory is fast.
 */
EXPORTED int32_t walk(const int32_t *parent, const int32_t *letter, const int32_t *depth,
                      int32_t size,
                      const int32_t *row_start, const int32_t *row_end,
                      const int32_t *first, const int32_t *last, const int32_t *target,
                      const int32_t *shortest, int32_t max_letters, int32_t *states, int32_t from)
{
    int32_t row = -1, low = 0, high = 0, range = 0;
    for (int32_t vertex = from; vertex < size; vertex++) {
        int32_t state = states[parent[vertex]];
        if (state == 0)
            continue;
        if (state != row) {
            row = state;
            range = low = row_start[row];
            high = row_end[row];
            if (low < 0)
                return vertex;
        }
        int32_t wanted = letter[vertex];
        /* The letters of siblings ascend, except where a letter has several spellings. */
        if (range > low && wanted <= last[range - 1])
            range = low;
        while (range < high && wanted > last[range])
            range++;
        if (range == high || wanted < first[range])
            continue;
        if (max_letters == INT32_MAX || depth[vertex] <= max_letters - shortest[target[range]])
            states[vertex] = target[range];
    }
    return size;
}

/* Visit the vertices below others, as far as an automaton is alive there.
 *
 * Trie: the children of vertex v are first_child[v] to before first_child[v + 1], sorted by their
 * bytes. Automaton: as for `walk`; complete[s]: whether a lexeme may end in state s.
 *
 * The first `progress[1]` entries of `vertices` and `states` are the vertices to begin with and
 * their states. Entries are visited in order, from `progress[0]` on. A child whose byte has a
 * target is appended to them. If a lexeme may end at a vertex, its children begin what follows the
 * lexeme: all of them, or with `longest` those without a target. They are appended to `leaving`,
 * and the state of the vertex to `left`.
 *
 * Vertices to begin with may lie below one another. Bit s of `seen[v]` says that vertex v was
 * reached in state s < 64, which then is not visited again.
 *
 * Returns the state of the first entry whose transitions are not known yet, or 0 at the end.
 * `progress` is updated: the next entry, the number of entries, and the number of `leaving`.
 */
EXPORTED int32_t descend(const int32_t *first_child, const uint8_t *byte,
                         const int32_t *row_start, const int32_t *row_end,
                         const int32_t *first, const int32_t *last, const int32_t *target,
                         const int8_t *complete, int32_t longest,
                         int32_t *vertices, int32_t *states, int32_t *leaving, int32_t *left,
                         uint64_t *seen, int32_t *progress)
{
    int32_t entries = progress[1], leaves = progress[2];
    for (int32_t entry = progress[0]; entry < entries; entry++) {
        int32_t state = states[entry];
        int32_t range = row_start[state], high = row_end[state];
        if (range < 0) {
            progress[0] = entry;
            progress[1] = entries;
            progress[2] = leaves;
            return state;
        }
        int32_t end = first_child[vertices[entry] + 1];
        for (int32_t child = first_child[vertices[entry]]; child < end; child++) {
            int32_t wanted = byte[child], found = 0;
            while (range < high && wanted > last[range])
                range++;
            if (range < high && wanted >= first[range])
                found = target[range];
            uint64_t bit = found < 64 ? (uint64_t)1 << found : 0;
            if (found && !(seen[child] & bit)) {
                seen[child] |= bit;
                vertices[entries] = child;
                states[entries++] = found;
            }
            if (complete[state] && !(found && longest)) {
                leaving[leaves] = child;
                left[leaves++] = state;
            }
        }
    }
    progress[0] = progress[1] = entries;
    progress[2] = leaves;
    return 0;
}
