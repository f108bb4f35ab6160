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

EXPORTED const int32_t version = 2;

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
