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

/* Go down from the first `count` vertices of `queue`, whose states are known.
 *
 * Trie: the children of v are first_child[v] up to first_child[v + 1]; letter[v] and depth[v].
 * Automaton: the row of state s is the ranges row_start[s] up to row_end[s] (row_start[s] < 0: not
 * known yet), each `first`..`last` with its `target`, ascending; at least shortest[s] letters
 * follow s. No vertex is reached from which `most` letters in all cannot do (INT32_MAX: no bound).
 *
 * Writes the states of the vertices that are reached to `states`, adds the vertices to the *reached
 * ones in `live`, and writes those that must wait for the row of their state to `waiting`, of which
 * it returns the number. `queue`, `live` and `waiting` have room for all vertices. First in, first
 * out: neighbours are visited one after the other, which is what memory is quick at.
 */
EXPORTED int32_t walk(const int32_t *first_child, const int32_t *letter, const int32_t *depth,
                      const int32_t *row_start, const int32_t *row_end,
                      const int32_t *first, const int32_t *last, const int32_t *target,
                      const int32_t *shortest, int32_t most,
                      int32_t *states, int32_t *queue, int32_t count, int32_t *waiting,
                      int32_t *live, int32_t *reached)
{
    int32_t waits = 0, lives = *reached;
    for (int32_t at = 0; at < count; at++) {
        int32_t vertex = queue[at];
        int32_t state = states[vertex];
        int32_t low = row_start[state], high = row_end[state];
        if (low < 0) {
            waiting[waits++] = vertex;
            continue;
        }
        int32_t child = first_child[vertex], end = first_child[vertex + 1];
        int32_t below = end > child ? first_child[child] : 0;
        int32_t range = low;
        for (; child < end; child++) {
            int32_t begins = below, wanted = letter[child];
            below = first_child[child + 1];
            /* The letters of neighbours ascend, but where one has another spelling as well. */
            if (range > low && wanted <= last[range - 1])
                range = low;
            while (range < high && wanted > last[range])
                range++;
            if (range == high || wanted < first[range])
                continue;
            int32_t next = target[range];
            if (most != INT32_MAX && depth[child] > most - shortest[next])
                continue;
            states[child] = next;
            live[lives++] = child;
            if (begins < below)
                queue[count++] = child;
        }
    }
    *reached = lives;
    return waits;
}
