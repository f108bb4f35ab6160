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

EXPORTED const int32_t version = 17;

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

/* A vertex of a trie. The tokens at and below it have the ranks `low` to before `high`; those before `end`
 * end at it. `classes`: the classes of the bytes below it, as a set. depth_and_byte: 256 times the number of
 * its bytes, plus the last one.
 */
typedef struct {
    uint64_t classes;
    int32_t low, end, high, depth_and_byte;
} vertex_tokens;

static int32_t depth_of(const vertex_tokens *vertex) { return vertex->depth_and_byte >> 8; }

static int32_t byte_of(const vertex_tokens *vertex) { return vertex->depth_and_byte & 255; }

/* Vertices by level: those below one are far away, and its children side by side. */
typedef struct {
    vertex_tokens tokens;
    int32_t first_child, end_child;
} trie_vertex;

/* Vertices in the order of the texts: those below one are next, up to before `after`. `number`: its index
 * by level. In both orders, one vertex is in one line of the cache.
 */
typedef struct {
    vertex_tokens tokens;
    int32_t after, number;
} ordered_vertex;

/* ordered: the vertices in the order of the texts; index: the place of each. */
typedef struct {
    const trie_vertex *vertices;
    const int32_t *ids;
    const uint8_t *bytes;
    const ordered_vertex *ordered;
    const int32_t *index;
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
 * unless `is_below`. None of them is below another.
 * vertices, states, parsers: `pending` vertices to visit. path: the states above the next vertex.
 * bits: one for each token that is found; few: the first of their ids.
 * leaving: the vertices with the first byte after a lexeme, and the kinds of the states before it:
 * those without a target, or all if not `longest`.
 * visited: if wanted, all vertices with their states; visits: their number.
 * reached: the states that were reached, each of them marked in is_reached.
 */
typedef struct {
    const int32_t *begin;
    int32_t *vertices, *states, *path;
    uint8_t *bits;
    int32_t *few, *leaving, *kinds, *visited, *visited_states, *reached;
    uint8_t *is_reached;
    int32_t *parsers;
    int32_t begins, begun, start, is_below, longest, pending;
    int32_t found, max_few, leaves, max_leaves, visits, states_reached;
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

static void visit(descent *walk, int32_t vertex, int32_t state)
{
    if (walk->visited) {
        walk->visited[walk->visits] = vertex;
        walk->visited_states[walk->visits] = state;
    }
    walk->visits++;
}

/* Add the tokens at a vertex that is reached in a state, and those below it if the state loops on all
 * their bytes and no lexeme leaves there. Returns whether the vertices below are to be visited.
 */
static int reach(const token_trie *trie, const lexer *lexer, descent *walk, int32_t vertex,
                 const vertex_tokens *tokens, int32_t state)
{
    if (!walk->is_reached[state]) {
        walk->is_reached[state] = 1;
        walk->reached[walk->states_reached++] = state;
    }
    visit(walk, vertex, state);
    if (tokens->end < tokens->high &&
        (walk->visited || tokens->classes & ~lexer->loops[state] ||
         !(walk->longest || lexer->kind[state] == 0))) {
        add_tokens(trie, walk, tokens->low, tokens->end);
        return 1;
    }
    add_tokens(trie, walk, tokens->low, tokens->high);
    return 0;
}

static void leave(descent *walk, int32_t vertex, int32_t kind, int32_t below)
{
    if (kind && !(below && walk->longest)) {
        walk->leaving[walk->leaves] = vertex;
        walk->kinds[walk->leaves++] = kind;
    }
}

/* Visit the children of a vertex that is reached in a state, whose row is known. */
static void visit_children(const token_trie *trie, const lexer *lexer, descent *walk, int32_t vertex,
                           int32_t state)
{
    int32_t child = trie->vertices[vertex].first_child, end = trie->vertices[vertex].end_child;
    for (; child < end; child++) {
        int32_t below = lexer->target[256 * state + trie->bytes[child]];
        leave(walk, child, lexer->kind[state], below);
        if (below && reach(trie, lexer, walk, child, &trie->vertices[child].tokens, below)) {
            walk->vertices[walk->pending] = child;
            walk->states[walk->pending++] = below;
        }
    }
}

/* Visit all vertices below one that is reached in a state, whose row is known. Vertices in states whose
 * rows are unknown are written to `vertices` and `states`, from `late` on; returns the end of these.
 */
static int32_t visit_below(const token_trie *trie, const lexer *lexer, descent *walk, int32_t vertex,
                           int32_t state, int32_t late)
{
    const ordered_vertex *at = trie->ordered + trie->index[vertex], *end = trie->ordered + at->after;
    int32_t *path = walk->path, base = depth_of(&at->tokens);
    path[0] = state;
    for (at++; at < end;) {
        int32_t depth = depth_of(&at->tokens) - base, above = path[depth - 1];
        int32_t below = lexer->target[256 * above + byte_of(&at->tokens)];
        leave(walk, at->number, lexer->kind[above], below);
        if (below && reach(trie, lexer, walk, at->number, &at->tokens, below)) {
            if (lexer->kind[below] >= 0) {
                path[depth] = below;
                at++;
                continue;
            }
            walk->vertices[late] = at->number;
            walk->states[late++] = below;
        }
        at = trie->ordered + at->after;
    }
    return late;
}

/* Tokens below a vertex up to which the vertices below it are visited in the order of the texts. Where
 * there are more, siblings are far from one another in that order. So are those that lexers skip.
 */
enum { NEAR_TOKENS = 64 };

/* Visit the vertices below others, as far as a lexer is alive there.
 *
 * The row of `start` must be known. Returns whether vertices are pending: the call is to be repeated
 * after the rows of their states have been computed.
 */
EXPORTED int32_t descend(const token_trie *trie, const lexer *lexer, descent *walk)
{
    for (; walk->begun < walk->begins; walk->begun++) {
        int32_t vertex = walk->begin[walk->begun], state = walk->start;
        if (walk->is_below)
            visit(walk, vertex, state);
        else if (!(state = lexer->target[256 * state + trie->bytes[vertex]]) ||
                 !reach(trie, lexer, walk, vertex, &trie->vertices[vertex].tokens, state))
            continue;
        walk->vertices[walk->pending] = vertex;
        walk->states[walk->pending++] = state;
    }
    int32_t first = walk->max_leaves, late = first;
    while (walk->pending) {
        int32_t vertex = walk->vertices[--walk->pending], state = walk->states[walk->pending];
        const vertex_tokens *tokens = &trie->vertices[vertex].tokens;
        if (lexer->kind[state] < 0) {
            walk->vertices[late] = vertex;
            walk->states[late++] = state;
        } else if (walk->longest || tokens->high - tokens->low > NEAR_TOKENS) {
            visit_children(trie, lexer, walk, vertex, state);
        } else {
            late = visit_below(trie, lexer, walk, vertex, state, late);
        }
    }
    for (; first < late; first++) {
        walk->vertices[walk->pending] = walk->vertices[first];
        walk->states[walk->pending++] = walk->states[first];
    }
    return walk->pending > 0;
}

/* A source of quotes, as it is written. order: positions in the order of the texts there. text: the
 * characters by number, -1 at the end. The spellings of character c are first_spelling[c] to before
 * first_spelling[c + 1], the bytes of spelling s are first_byte[s] to before first_byte[s + 1].
 * last_end: by position, the last one up to it where a quote may end; null if it may end anywhere.
 * size: the length of the source.
 */
typedef struct {
    const int32_t *order, *text, *first_spelling, *first_byte, *last_end;
    const uint8_t *bytes, *terminator;
    int32_t size, terminator_size;
} spelled_source;

/* A quote: the texts at positions in the order of a source, from `depth` characters on, that have from
 * min_chars to max_chars characters; -1 for no bound. Its tokens are set in `mask`, or added to a walk if
 * it is null.
 */
typedef struct {
    const spelled_source *source;
    uint8_t *mask;
    int32_t depth, min_chars, max_chars;
} quotation;

static int32_t child_of(const token_trie *trie, int32_t vertex, int32_t byte)
{
    int32_t low = trie->vertices[vertex].first_child, end = trie->vertices[vertex].end_child;
    int32_t high = end;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (trie->bytes[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && trie->bytes[low] == byte ? low : -1;
}

static int has_children(const token_trie *trie, int32_t vertex)
{
    return trie->vertices[vertex].first_child < trie->vertices[vertex].end_child;
}

static void add_quoted(const token_trie *trie, const quotation *quote, descent *walk, int32_t vertex)
{
    int32_t rank = trie->vertices[vertex].tokens.low, end = trie->vertices[vertex].tokens.end;
    if (!quote->mask) {
        add_tokens(trie, walk, rank, end);
        return;
    }
    for (; rank < end; rank++)
        quote->mask[trie->ids[rank]] = 1;
}

static void push(descent *walk, int32_t vertex, int32_t low, int32_t high, int32_t length)
{
    int32_t at = 2 * walk->pending++;
    walk->vertices[at] = vertex, walk->vertices[at + 1] = length;
    walk->states[at] = low, walk->states[at + 1] = high;
}

/* Follow the bytes of a spelling from one on. Hexadecimal digits of an escape have either case. */
static void spell(const token_trie *trie, const quotation *quote, descent *walk, int32_t vertex,
                  const uint8_t *bytes, int32_t from, int32_t size, const int32_t *group)
{
    int is_digit = from > 1 && bytes[0] == '\\' && bytes[from] >= 'a' && bytes[from] <= 'f';
    for (int upper = 0; upper <= is_digit; upper++) {
        int32_t child = child_of(trie, vertex, bytes[from] - (upper ? 'a' - 'A' : 0));
        if (child < 0)
            continue;
        add_quoted(trie, quote, walk, child);
        if (!has_children(trie, child))
            continue;
        if (from + 1 < size)
            spell(trie, quote, walk, child, bytes, from + 1, size, group);
        else
            push(walk, child, group[0], group[1], group[2]);
    }
}

static int32_t character(const quotation *quote, int32_t index, int32_t length)
{
    return quote->source->text[quote->source->order[index] + quote->depth + length];
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

/* Whether a quote from one of some positions may have a number of characters, or, if `ends`, may end
 * after them. */
static int reaches(const quotation *quote, int32_t low, int32_t high, int32_t length, int ends)
{
    const spelled_source *source = quote->source;
    int is_bounded = quote->min_chars > 0 || quote->max_chars >= 0;
    if (ends && length < quote->min_chars)
        return 0;
    if (quote->max_chars >= 0 && length > quote->max_chars)
        return 0;
    if (!(source->last_end ? is_bounded || ends : quote->min_chars > length))
        return 1;
    for (; low < high; low++) {
        int32_t start = source->order[low] + quote->depth, last = source->size;
        if (ends) {
            if (source->last_end[start + length] == start + length)
                return 1;
            continue;
        }
        if (quote->max_chars >= 0 && last - start > quote->max_chars)
            last = start + quote->max_chars;
        if (source->last_end)
            last = source->last_end[last];
        if (last - start >= quote->min_chars && last - start >= length)
            return 1;
    }
    return 0;
}

/* Visit the vertices below one that the texts of a quote reach, after the first bytes of a spelling,
 * if some are `begun`. The stack has two numbers in each array of the walk. `leaving` gets the vertices
 * where the quote and its terminator may end; returns their number.
 */
EXPORTED int32_t quote(const token_trie *trie, descent *walk, const spelled_source *source,
                       uint8_t *mask, int32_t vertex, int32_t low, int32_t high, int32_t depth, int32_t min_chars,
                       int32_t max_chars, const uint8_t *begun, int32_t begun_size)
{
    const quotation quoted = {source, mask, depth, min_chars, max_chars};
    walk->pending = walk->leaves = 0;
    push(walk, vertex, low, high, 0);
    while (walk->pending) {
        int32_t top = 2 * --walk->pending;
        int32_t vertex = walk->vertices[top], length = walk->vertices[top + 1];
        int32_t low = walk->states[top], high = walk->states[top + 1];
        int32_t end = length ? vertex : -1;
        if (source->terminator_size)
            end = begun_size ? -1 : child_of(trie, vertex, source->terminator[0]);
        /* Few vertices have a terminator below them, and many positions may have to be read. */
        if (end >= 0 && reaches(&quoted, low, high, length, 1)) {
            end = vertex;
            for (int32_t at = 0; at < source->terminator_size && end >= 0; at++) {
                end = child_of(trie, end, source->terminator[at]);
                if (end >= 0)
                    add_quoted(trie, &quoted, walk, end);
            }
            if (end >= 0)
                walk->leaving[walk->leaves++] = end;
        }
        while (low < high) {
            int32_t next = character(&quoted, low, length);
            int32_t group[3] = {low, end_of_group(&quoted, low, high, length), length + 1};
            low = group[1];
            if (next < 0 || !reaches(&quoted, group[0], group[1], length + 1, 0))
                continue;
            int32_t spelling = source->first_spelling[next];
            for (; spelling < source->first_spelling[next + 1]; spelling++) {
                const uint8_t *bytes = source->bytes + source->first_byte[spelling];
                int32_t size = source->first_byte[spelling + 1] - source->first_byte[spelling];
                int32_t from = 0;
                while (from < begun_size && from < size && bytes[from] == begun[from])
                    from++;
                if (from == begun_size && from < size)
                    spell(trie, &quoted, walk, vertex, bytes, from, size, group);
            }
        }
        begun_size = 0;
    }
    return walk->leaves;
}

/* An automaton whose states are sets of stacks, made while it is walked.
 *
 * Symbols are languages: row[width * y + b] is the target of symbol y by byte b, 0 if it is dead. `flags`
 * of a symbol: 1 if it may be empty, 2 if its row is known, 4 if it equals two of it in a row, 8 if it
 * is a union: its row has one entry, the target of its members, which replace it on top of a stack.
 * `loops`: the classes of bytes by which only the symbol itself follows it. words[first_word[t]] is the number of
 * alternatives of target t; then each has the number of its symbols, and these, the last one first.
 *
 * Stack 0 is empty; another one is symbol[k] on parent[k]. A state is a set of stacks, which includes
 * the stacks below symbols that may be empty: items[first_item[s]] to before items[first_item[s + 1]],
 * ascending. State 1 is dead. target[256 * s + b] is 0 if it is unknown. stack_slots and state_slots are
 * hash tables of their numbers. is_ready: whether the rows of all symbols on top of the stacks are known;
 * skips: the classes of bytes by which one of these symbols stays on top.
 */
typedef struct {
    const int32_t *row;
    const uint8_t *flags;
    const uint64_t *loops;
    const int32_t *first_word, *words;
    int32_t *symbol, *parent, *stack_slots, *first_item, *items, *state_slots, *target;
    uint64_t *skips;
    uint8_t *is_ready;
    int32_t *gathered, *marks;
    int32_t stacks, max_stacks, states, max_states, max_items, max_gathered, mark, missing, steps, width;
} stack_automaton;

enum { MAY_BE_EMPTY = 1, ROW_IS_KNOWN = 2, IS_CLOSED = 4, IS_UNION = 8 };
enum { UNKNOWN_STATE = 0, DEAD_STATE = 1, FULL = -1 };

static int32_t gather(stack_automaton *machine, int32_t target, int32_t below, int32_t count,
                      int32_t depth);

static uint32_t mixed(uint32_t hash, uint32_t number)
{
    hash = (hash ^ number) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

/* Return the stack of a symbol on another one; FULL if there is no room. */
static int32_t pushed(stack_automaton *machine, int32_t symbol, int32_t below)
{
    if (machine->flags[symbol] & IS_CLOSED && below && machine->symbol[below] == symbol)
        return below;
    uint32_t last = 2 * (uint32_t)machine->max_stacks - 1;
    uint32_t slot = mixed(mixed(0, (uint32_t)symbol), (uint32_t)below) & last;
    for (int32_t known; (known = machine->stack_slots[slot]); slot = (slot + 1) & last)
        if (machine->symbol[known] == symbol && machine->parent[known] == below)
            return known;
    if (machine->stacks == machine->max_stacks)
        return FULL;
    machine->symbol[machine->stacks] = symbol;
    machine->parent[machine->stacks] = below;
    machine->stack_slots[slot] = machine->stacks;
    return machine->stacks++;
}

/* Add a stack to those that are gathered, and those below symbols that may be empty. Returns their
 * number. `depth`: the unions that are being expanded. As many as stacks may be gathered are allowed,
 * since each has members that add a stack; so a text of any nesting fits into the stack of a thread.
 */
static int32_t gather_stack(stack_automaton *machine, int32_t stack, int32_t count, int32_t depth)
{
    while (machine->marks[stack] != machine->mark) {
        int32_t symbol = machine->symbol[stack], flags = stack ? machine->flags[symbol] : 0;
        machine->marks[stack] = machine->mark;
        if (flags & IS_UNION) {
            if (depth == machine->max_gathered)
                return FULL;
            int32_t members = machine->row[machine->width * symbol];
            return gather(machine, members, machine->parent[stack], count, depth + 1);
        }
        if (count == machine->max_gathered)
            return FULL;
        machine->gathered[count++] = stack;
        if (!(flags & MAY_BE_EMPTY))
            break;
        stack = machine->parent[stack];
    }
    return count;
}

/* Add the stacks of a target to those that are gathered. Returns their number. */
static int32_t gather(stack_automaton *machine, int32_t target, int32_t below, int32_t count,
                      int32_t depth)
{
    const int32_t *word = machine->words + machine->first_word[target];
    for (int32_t alternatives = *word++; alternatives && count >= 0; alternatives--) {
        int32_t stack = below;
        for (int32_t length = *word++; length; length--) {
            stack = pushed(machine, *word++, stack);
            if (stack < 0)
                return FULL;
        }
        count = gather_stack(machine, stack, count, depth);
    }
    return count;
}

/* Return the state of the stacks that are gathered; FULL if there is no room. */
static int32_t state_of(stack_automaton *machine, int32_t count)
{
    int32_t *found = machine->gathered;
    uint32_t hash = 0;
    if (!count)
        return DEAD_STATE;
    for (int32_t at = 1; at < count; at++) {
        int32_t stack = found[at], to = at;
        for (; to && found[to - 1] > stack; to--)
            found[to] = found[to - 1];
        found[to] = stack;
    }
    for (int32_t at = 0; at < count; at++)
        hash = mixed(hash, (uint32_t)found[at]);
    uint32_t last = 2 * (uint32_t)machine->max_states - 1, slot = hash & last;
    for (int32_t known; (known = machine->state_slots[slot]); slot = (slot + 1) & last) {
        const int32_t *items = machine->items + machine->first_item[known];
        int32_t same = 0;
        if (machine->first_item[known + 1] - machine->first_item[known] != count)
            continue;
        while (same < count && items[same] == found[same])
            same++;
        if (same == count)
            return known;
    }
    int32_t state = machine->states, first = machine->first_item[state];
    if (state == machine->max_states || first + count > machine->max_items)
        return FULL;
    for (int32_t at = 0; at < count; at++)
        machine->items[first + at] = found[at];
    machine->first_item[state + 1] = first + count;
    machine->state_slots[slot] = state;
    machine->states++;
    return state;
}

/* Return the state of the stacks of a target; FULL if there is no room. */
EXPORTED int32_t enter(stack_automaton *machine, int32_t target)
{
    machine->mark++;
    int32_t count = gather(machine, target, 0, 0, 0);
    return count < 0 ? count : state_of(machine, count);
}

static int32_t bits_of(uint64_t set)
{
    int32_t count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

/* Whether the rows of the symbols on top of a state's stacks are known; else `missing` is one that is
 * not. */
static int make_ready(stack_automaton *machine, int32_t state)
{
    uint64_t skips = 0;
    if (machine->is_ready[state])
        return 1;
    for (int32_t at = machine->first_item[state]; at < machine->first_item[state + 1]; at++) {
        int32_t stack = machine->items[at];
        if (!stack)
            continue;
        int32_t symbol = machine->symbol[stack];
        if (!(machine->flags[symbol] & ROW_IS_KNOWN)) {
            machine->missing = symbol;
            return 0;
        }
        if (bits_of(machine->loops[symbol]) > bits_of(skips))
            skips = machine->loops[symbol];
    }
    machine->skips[state] = skips;
    machine->is_ready[state] = 1;
    return 1;
}

/* Return the state after a byte, in a state that is ready; FULL if there is no room. */
static int32_t state_after(stack_automaton *machine, int32_t state, int32_t byte)
{
    int32_t *known = machine->target + 256 * state + byte, count = 0;
    if (*known != UNKNOWN_STATE)
        return *known;
    machine->mark++;
    machine->steps++;
    for (int32_t at = machine->first_item[state]; at < machine->first_item[state + 1]; at++) {
        int32_t stack = machine->items[at];
        int32_t target = stack ? machine->row[machine->width * machine->symbol[stack] + byte] : 0;
        if (target && (count = gather(machine, target, machine->parent[stack], count, 0)) < 0)
            return FULL;
    }
    int32_t after = state_of(machine, count);
    if (after >= 0)
        *known = after;
    return after;
}

/* Visit the vertices below others, as far as a state is alive there.
 *
 * `leaving` gets the vertices where the stack may be empty, unless all tokens below are found. Returns
 * 0 at the end, and FULL if there is no room in the automaton. Otherwise the call is to be repeated
 * after the row of symbol `missing` has been computed, or `leaving` been emptied.
 */
EXPORTED int32_t descend_stacks(const token_trie *trie, stack_automaton *machine, descent *walk)
{
    for (;;) {
        if (!walk->pending) {
            if (walk->begun == walk->begins)
                return 0;
            walk->vertices[0] = walk->begin[walk->begun++];
            walk->states[0] = walk->start;
            walk->pending = 1;
        }
        int32_t vertex = walk->vertices[walk->pending - 1], state = walk->states[walk->pending - 1];
        const trie_vertex *at = trie->vertices + vertex;
        machine->missing = -1;
        if (!make_ready(machine, state) || walk->leaves == walk->max_leaves)
            return 1;
        walk->pending--;
        if (!(at->tokens.classes & ~machine->skips[state])) {
            add_tokens(trie, walk, at->tokens.end, at->tokens.high);
            continue;
        }
        if (!machine->items[machine->first_item[state]])
            walk->leaving[walk->leaves++] = vertex;
        for (int32_t child = at->first_child; child < at->end_child; child++) {
            const trie_vertex *below = trie->vertices + child;
            int32_t after = state_after(machine, state, byte_of(&below->tokens));
            if (after < 0)
                return after;
            if (after == DEAD_STATE)
                continue;
            add_tokens(trie, walk, below->tokens.low, below->tokens.end);
            if (below->first_child < below->end_child) {
                walk->vertices[walk->pending] = child;
                walk->states[walk->pending++] = after;
            }
        }
    }
}

/* A lexer and a parser: the automaton of a grammar over lexemes, whose longest matches are lexemes.
 *
 * The parser's symbols are terminals. A lexeme that ends in a state of kind k is one of terminals[i],
 * i from first_terminal[k] to before first_terminal[k + 1]; -1 is one that the parser ignores.
 * sets: the sets of terminals that states of the parser begin with. set_of[p]: one more than the
 * number of the set of state p. starts[s]: one more than the state of the lexer in front of lexemes of
 * set s. Both are 0 if not known. set_slots: a hash table of the numbers.
 * safety of a state of the lexer: SAFE if a text follows whatever the parser's state is, 0 if that is
 * not known; else the number of the ends of its lexemes, on which it depends.
 * pairs: three numbers each, the last one known for the other two: a state of the parser and a kind,
 * with the state behind such a lexeme; a state of the parser and a negative number of ends, with
 * IS_LIVE or IS_DEAD. pair_slots: a hash table of one more than their numbers.
 * resume: the child of the vertex on top that is next, if not all are to be visited.
 * answer: IS_LIVE or IS_DEAD for `missing` and `above`, after ASK_LIVE.
 */
typedef struct {
    stack_automaton *parser;
    const int32_t *target, *kind;
    const uint64_t *loops;
    const int32_t *first_terminal, *terminals;
    uint64_t *sets;
    int32_t *set_slots, *set_of, *starts;
    const int32_t *safety;
    int32_t *pairs, *pair_slots;
    int32_t set_words, set_count, max_sets, pair_count, max_pairs, resume, missing, above, answer;
} lexeme_automaton;

enum { SAFE = 1, IS_LIVE = 1, IS_DEAD = 2 };
enum { ASK_ROW = 1, ASK_SYMBOL, ASK_START, ASK_SAFETY, ASK_LIVE };

/* Return the pair of two numbers, whose third is 0 if it is new; null if there is no room. */
static int32_t *pair_of(lexeme_automaton *machine, int32_t first, int32_t second)
{
    uint32_t last = 2 * (uint32_t)machine->max_pairs - 1;
    uint32_t slot = mixed(mixed(0, (uint32_t)first), (uint32_t)second) & last;
    for (int32_t known; (known = machine->pair_slots[slot]); slot = (slot + 1) & last) {
        int32_t *pair = machine->pairs + 3 * (known - 1);
        if (pair[0] == first && pair[1] == second)
            return pair;
    }
    if (machine->pair_count == machine->max_pairs)
        return 0;
    int32_t *pair = machine->pairs + 3 * machine->pair_count++;
    machine->pair_slots[slot] = machine->pair_count;
    pair[0] = first, pair[1] = second, pair[2] = 0;
    return pair;
}

/* Find the parser's state behind a lexeme of a kind. Returns 0, or what is missing. */
EXPORTED int32_t parse(lexeme_automaton *machine, int32_t state, int32_t kind, int32_t *found)
{
    stack_automaton *parser = machine->parser;
    int32_t *pair = pair_of(machine, state, kind), count = 0;
    if (!pair)
        return FULL;
    if ((*found = pair[2]))
        return 0;
    const int32_t *first = parser->items + parser->first_item[state];
    const int32_t *end = parser->items + parser->first_item[state + 1];
    parser->mark++;
    parser->steps++;
    for (const int32_t *item = first; item < end; item++)
        if (*item && !(parser->flags[parser->symbol[*item]] & ROW_IS_KNOWN)) {
            parser->missing = parser->symbol[*item];
            return ASK_SYMBOL;
        }
    for (int32_t at = machine->first_terminal[kind]; at < machine->first_terminal[kind + 1]; at++) {
        int32_t terminal = machine->terminals[at];
        for (const int32_t *item = first; item < end; item++) {
            if (terminal < 0) {
                count = gather_stack(parser, *item, count, 0);
            } else if (*item) {
                int32_t target = parser->row[parser->width * parser->symbol[*item] + terminal];
                if (target)
                    count = gather(parser, target, parser->parent[*item], count, 0);
            }
            if (count < 0)
                return FULL;
        }
    }
    *found = state_of(parser, count);
    if (*found < 0)
        return FULL;
    pair[2] = *found;
    return 0;
}

/* Find the lexer's state in front of the lexemes that a state of the parser allows. Returns 0, or
 * what is missing. */
static int32_t begin_lexeme(lexeme_automaton *machine, int32_t state, int32_t *found)
{
    stack_automaton *parser = machine->parser;
    int32_t size = machine->set_words;
    if (!machine->set_of[state]) {
        uint64_t *set = machine->sets + size * machine->set_count;
        uint32_t hash = 0, last = 2 * (uint32_t)machine->max_sets - 1;
        if (machine->set_count == machine->max_sets)
            return FULL;
        for (int32_t at = 0; at < size; at++)
            set[at] = 0;
        for (int32_t at = parser->first_item[state]; at < parser->first_item[state + 1]; at++) {
            int32_t stack = parser->items[at];
            if (!stack)
                continue;
            int32_t symbol = parser->symbol[stack];
            if (!(parser->flags[symbol] & ROW_IS_KNOWN)) {
                parser->missing = symbol;
                return ASK_SYMBOL;
            }
            const int32_t *row = parser->row + parser->width * symbol;
            for (int32_t terminal = 0; terminal < parser->width; terminal++)
                if (row[terminal])
                    set[terminal / 64] |= (uint64_t)1 << terminal % 64;
        }
        for (int32_t at = 0; at < size; at++)
            hash = mixed(mixed(hash, (uint32_t)set[at]), (uint32_t)(set[at] >> 32));
        uint32_t slot = hash & last;
        int32_t known;
        for (; (known = machine->set_slots[slot]); slot = (slot + 1) & last) {
            const uint64_t *other = machine->sets + size * (known - 1);
            int32_t same = 0;
            while (same < size && other[same] == set[same])
                same++;
            if (same == size)
                break;
        }
        if (!known)
            known = machine->set_slots[slot] = ++machine->set_count;
        machine->set_of[state] = known;
    }
    int32_t start = machine->starts[machine->set_of[state] - 1];
    if (!start) {
        machine->missing = machine->set_of[state] - 1;
        return ASK_START;
    }
    *found = start - 1;
    if (machine->kind[*found] < 0) {
        machine->missing = *found;
        return ASK_ROW;
    }
    return 0;
}

/* Find whether a text follows within a lexeme. Returns 0, or what is missing. */
static int32_t find_live(lexeme_automaton *machine, int32_t lexer, int32_t state, int32_t *is_live)
{
    *is_live = 1;
    if (machine->safety[lexer] == SAFE)
        return 0;
    machine->missing = lexer;
    if (!machine->safety[lexer])
        return ASK_SAFETY;
    int32_t *pair = pair_of(machine, state, -machine->safety[lexer]);
    if (!pair)
        return FULL;
    if (machine->answer) {
        pair[2] = machine->answer;
        machine->answer = 0;
    }
    machine->above = state;
    if (!pair[2])
        return ASK_LIVE;
    *is_live = pair[2] == IS_LIVE;
    return 0;
}

/* Add the tokens at a vertex that is reached within a lexeme, if a text follows, and those below it if
 * they all stay in the same state; otherwise the vertex is to be visited. Returns 0, or what is missing. */
static int32_t reach_lexeme(const token_trie *trie, lexeme_automaton *machine, descent *walk,
                            int32_t vertex, int32_t lexer, int32_t state)
{
    const vertex_tokens *at = &trie->vertices[vertex].tokens;
    int32_t stays = !(at->classes & ~machine->loops[lexer]), end = stays ? at->high : at->end;
    if (at->low < end) {
        int32_t is_live, status = find_live(machine, lexer, state, &is_live);
        if (status || !is_live)
            return status;
        add_tokens(trie, walk, at->low, end);
    }
    if (!stays) {
        walk->vertices[walk->pending] = vertex;
        walk->states[walk->pending] = lexer;
        walk->parsers[walk->pending++] = state;
    }
    return 0;
}

/* Visit the vertices below others, as far as a lexer and a parser are alive there.
 *
 * A lexeme begins with the bytes of the vertices in `begin`, none of which is below another, in state
 * `start` of the parser. Returns 0 at the end, and FULL if there is no room in the automaton. Otherwise
 * the call is to be repeated after what is missing has been found.
 */
EXPORTED int32_t descend_lexemes(const token_trie *trie, lexeme_automaton *machine, descent *walk)
{
    int32_t status, first;
    for (; walk->begun < walk->begins; walk->begun++) {
        int32_t vertex = walk->begin[walk->begun];
        if ((status = begin_lexeme(machine, walk->start, &first)))
            return status;
        int32_t lexer = machine->target[256 * first + trie->bytes[vertex]];
        if (lexer && (status = reach_lexeme(trie, machine, walk, vertex, lexer, walk->start)))
            return status;
    }
    while (walk->pending) {
        int32_t vertex = walk->vertices[walk->pending - 1], lexer = walk->states[walk->pending - 1];
        int32_t state = walk->parsers[walk->pending - 1], after = 0;
        int32_t child = machine->resume ? machine->resume : trie->vertices[vertex].first_child;
        if (machine->kind[lexer] < 0) {
            machine->missing = lexer;
            return ASK_ROW;
        }
        walk->pending--;
        machine->resume = status = 0;
        for (; child < trie->vertices[vertex].end_child; child++) {
            int32_t byte = trie->bytes[child], to = machine->target[256 * lexer + byte];
            if (to) {
                status = reach_lexeme(trie, machine, walk, child, to, state);
            } else if (machine->kind[lexer] && after != DEAD_STATE) {
                if (!after && !(status = parse(machine, state, machine->kind[lexer], &after)) &&
                    after != DEAD_STATE && (status = begin_lexeme(machine, after, &first)))
                    after = 0;
                if (!status && after != DEAD_STATE && (to = machine->target[256 * first + byte]))
                    status = reach_lexeme(trie, machine, walk, child, to, after);
            }
            if (status) {
                walk->vertices[walk->pending] = vertex;
                walk->states[walk->pending] = lexer;
                walk->parsers[walk->pending++] = state;
                machine->resume = child;
                return status;
            }
        }
    }
    return 0;
}
