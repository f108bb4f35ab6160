/* The walk of an automaton over a trie: the inner loop of automaton.py, which says what it means.
 *
 * Plain C without any header of Python's, so that a compiler is all it takes to build it.
 */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

EXPORTED const int32_t version = 2;

/* Go through the vertices of a trie in order, from `from` on, and write their states.
 *
 * Trie: vertices by level, so that parents come first; parent[v], letter[v] and depth[v].
 * Automaton: the row of state s is the ranges row_start[s] up to row_end[s] (row_start[s] < 0: not
 * known yet), each `first`..`last` with its `target`, ascending; at least shortest[s] letters
 * follow s. A vertex has state 0 (dead) where its letter has no target, or where `most` letters in
 * all cannot do (INT32_MAX: no bound).
 *
 * `states` are zero but for those of the vertices before `from`. Returns the first vertex that must
 * wait for the row of its parent's state, or `size` when all is done. In order, and not only where
 * something is alive: that is what memory is quick at.
 */
EXPORTED int32_t walk(const int32_t *parent, const int32_t *letter, const int32_t *depth,
                      int32_t size,
                      const int32_t *row_start, const int32_t *row_end,
                      const int32_t *first, const int32_t *last, const int32_t *target,
                      const int32_t *shortest, int32_t most, int32_t *states, int32_t from)
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
        /* The letters of neighbours ascend, but where one has another spelling as well. */
        if (range > low && wanted <= last[range - 1])
            range = low;
        while (range < high && wanted > last[range])
            range++;
        if (range == high || wanted < first[range])
            continue;
        if (most == INT32_MAX || depth[vertex] <= most - shortest[target[range]])
            states[vertex] = target[range];
    }
    return size;
}
