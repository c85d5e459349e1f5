/* The compiled engine: vouches for whole lines, and finds the fields in them that rules read.
 *
 * It vouches for a line that is one JSON object (RFC 8259, UTF-8), nested no deeper than the limit, without a number
 * that may overflow, a lone surrogate, or a key twice where that matters. It explains nothing: whatever it does not
 * vouch for, `parse.py` reads exactly. So being too careful here costs time, never correctness.
 *
 * Functions that read a value take the byte it starts at and return the byte behind it, or NULL for "not vouched for".
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef const uint8_t *Place;

#define DEPTH_LIMIT 512
/* Digits before the point of a number that surely does not overflow, with an exponent of two digits. */
#define MANY_DIGITS 200
/* Digits of an integer that surely fits into 64 bits. */
#define INT64_DIGITS 18
/* Limits of the check for equal keys; beyond them the line is not vouched for. */
#define UNIQUE_KEYS 48
#define UNIQUE_DEPTH 16

/* ---- strings, numbers, literals ---------------------------------------------------------------------------------- */

static inline bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

static inline bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* Of the last byte behind a `\u`: 4 hexadecimal digits as a number, or -1. */
static int32_t hex4(Place p, Place end)
{
    if (end - p < 4)
        return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t byte = p[i], letter = byte | 0x20;
        if (is_digit(byte))
            value = value << 4 | (byte - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value << 4 | (letter - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* `p` is at a backslash. */
static Place escape_end(Place p, Place end)
{
    if (end - p < 2)
        return NULL;
    switch (p[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return p + 2;
    case 'u': {
        int32_t unit = hex4(p + 2, end);
        if (unit < 0)
            return NULL;
        if (unit < 0xD800 || unit > 0xDFFF)
            return p + 6;
        if (unit > 0xDBFF || end - p < 12 || p[6] != '\\' || p[7] != 'u')
            return NULL;
        int32_t low = hex4(p + 8, end);
        return low >= 0xDC00 && low <= 0xDFFF ? p + 12 : NULL;
    }
    default:
        return NULL;
    }
}

/* `p` is at a byte from 0x80 on. */
static Place utf8_end(Place p, Place end)
{
    uint8_t first = *p;
    if (first < 0xC2 || first > 0xF4)
        return NULL;
    int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (end - p < length || !is_continuation(p[1]))
        return NULL;
    if (length == 2)
        return p + 2;
    uint8_t second = p[1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F) || !is_continuation(p[2]) || (length == 4 && !is_continuation(p[3])))
        return NULL;
    return p + length;
}

/* `p` is behind the opening quote. */
static Place string_end(Place p, Place end)
{
    for (;;) {
#ifdef __SSE2__
        while (end - p >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)p);
            __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
            __m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
            /* Signed: bytes from 0x80 on are negative, so this finds them and control characters. */
            __m128i other = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
            unsigned found = (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), other));
            if (found) {
                p += __builtin_ctz(found);
                break;
            }
            p += 16;
        }
#endif
        while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
            p++;
        if (p == end)
            return NULL;
        if (*p == '"')
            return p + 1;
        if (*p == '\\')
            p = escape_end(p, end);
        else if (*p < 0x20)
            return NULL;
        else
            while (p && p < end && *p >= 0x80)
                p = utf8_end(p, end);
        if (!p)
            return NULL;
    }
}

/* `p` is at a digit or a minus. */
static Place number_end(Place p, Place end)
{
    if (*p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return NULL;
    Place digits = p;
    if (*p == '0')
        p++;
    else
        while (p < end && is_digit(*p))
            p++;
    if (p - digits >= MANY_DIGITS)
        return NULL;
    if (p < end && *p == '.') {
        digits = ++p;
        while (p < end && is_digit(*p))
            p++;
        if (p == digits)
            return NULL;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        bool negative = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        digits = p;
        while (p < end && is_digit(*p))
            p++;
        if (p == digits || (!negative && p - digits > 2))
            return NULL;
    }
    return p;
}

static Place literal_end(Place p, Place end, const char *text, size_t length)
{
    return (size_t)(end - p) >= length && memcmp(p, text, length) == 0 ? p + length : NULL;
}

static inline Place blanks_end(Place p, Place end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* Token ids and log probabilities are most of a large row. 64 bytes of `number,number,` are judged at a time, as bits.
 *
 * `p` is where a number may start, behind a bracket or a comma. Returns the place behind the last comma up to which all
 * are numbers without an exponent, with a comma and at most one space between them; `p` itself if there is none. */
#ifdef __SSE2__
static inline uint64_t equal_bits(const __m128i *bytes, char byte)
{
    uint64_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes[i], _mm_set1_epi8(byte))) << 16 * i;
    return bits;
}

static inline uint64_t digit_bits(const __m128i *bytes)
{
    uint64_t bits = 0;
    for (int i = 0; i < 4; i++) {
        __m128i shifted = _mm_sub_epi8(bytes[i], _mm_set1_epi8('0'));
        __m128i digits = _mm_cmpeq_epi8(_mm_min_epu8(shifted, _mm_set1_epi8(9)), shifted);
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(digits) << 16 * i;
    }
    return bits;
}

static Place numbers_end(Place p, Place end)
{
    while (end - p >= 64) {
        __m128i bytes[4];
        for (int i = 0; i < 4; i++)
            bytes[i] = _mm_loadu_si128((const __m128i *)p + i);
        uint64_t digits = digit_bits(bytes), commas = equal_bits(bytes, ','), spaces = equal_bits(bytes, ' ');
        uint64_t minuses = equal_bits(bytes, '-'), points = equal_bits(bytes, '.');
        uint64_t others = ~(digits | commas | spaces | minuses | points);
        if (others)
            commas &= (others & -others) - 1;
        if (!commas)
            return p;
        int last = 63 - __builtin_clzll(commas);
        uint64_t judged = last == 63 ? ~0ULL : (2ULL << last) - 1;
        digits &= judged, spaces &= judged, minuses &= judged, points &= judged;
        uint64_t behind_comma = (commas << 1 | 1) & judged;
        uint64_t starts = (behind_comma & ~spaces) | (spaces << 1 & judged);
        uint64_t first_digits = (starts | minuses << 1) & digits;
        uint64_t zeros = equal_bits(bytes, '0') & first_digits;
        uint64_t wrong = (commas & ~(digits << 1))                 /* a comma not behind a digit */
                         | (spaces & ~behind_comma)                /* a space not behind a comma */
                         | (starts & ~(digits | minuses))          /* a number that starts with something else */
                         | (minuses & ~starts)                     /* a minus inside a number */
                         | ((minuses << 1 | points << 1) & ~digits) /* no digit behind a minus or a point */
                         | (points & ~(digits << 1))               /* no digit before a point */
                         | (zeros << 1 & digits)                   /* a leading zero */
                         /* A second point: from behind each point, adding carries a bit through the digits to the byte
                          * behind them, as in 1.25.3 from the 2 to the second point. */
                         | (((points << 1) + digits) & ~digits & points);
        if (wrong)
            return p;
        p += last + 1;
    }
    return p;
}
#else
static Place numbers_end(Place p, Place end)
{
    (void)end;
    return p;
}
#endif

/* ---- any value --------------------------------------------------------------------------------------------------- */

/* `depth` objects and arrays are open around the value. */
static Place value_end(Place p, Place end, int depth)
{
    uint64_t is_object[DEPTH_LIMIT / 64 + 1] = {0};
    const int outside = depth;

value:
    if (p == end)
        return NULL;
    switch (*p) {
    case '"':
        p = string_end(p + 1, end);
        break;
    case '{':
    case '[':
        if (depth == DEPTH_LIMIT)
            return NULL;
        bool opens_object = *p == '{';
        if (opens_object)
            is_object[depth / 64] |= 1ULL << depth % 64;
        else
            is_object[depth / 64] &= ~(1ULL << depth % 64);
        depth++;
        p = blanks_end(p + 1, end);
        if (p == end)
            return NULL;
        if (*p == (opens_object ? '}' : ']')) {
            p++;
            depth--;
            break;
        }
        if (opens_object)
            goto key;
        p = numbers_end(p, end);
        p = blanks_end(p, end);
        goto value;
    case 't':
        p = literal_end(p, end, "true", 4);
        break;
    case 'f':
        p = literal_end(p, end, "false", 5);
        break;
    case 'n':
        p = literal_end(p, end, "null", 4);
        break;
    default:
        p = *p == '-' || is_digit(*p) ? number_end(p, end) : NULL;
    }
    if (!p)
        return NULL;

    while (depth > outside) {
        bool in_object = is_object[(depth - 1) / 64] >> (depth - 1) % 64 & 1;
        p = blanks_end(p, end);
        if (p == end)
            return NULL;
        if (*p == ',') {
            p = blanks_end(p + 1, end);
            if (in_object)
                goto key;
            p = blanks_end(numbers_end(p, end), end);
            goto value;
        }
        if (*p != (in_object ? '}' : ']'))
            return NULL;
        p++;
        depth--;
    }
    return p;

key:
    if (p == end || *p != '"' || !(p = string_end(p + 1, end)))
        return NULL;
    p = blanks_end(p, end);
    if (p == end || *p != ':')
        return NULL;
    p = blanks_end(p + 1, end);
    goto value;
}

/* Behind a value that is vouched for already; NULL if an object in it has two equal keys, or may have. */
static Place unique_end(Place p, Place end, int depth)
{
    if (*p != '{' && *p != '[')
        return value_end(p, end, 0);
    if (depth == UNIQUE_DEPTH)
        return NULL;
    struct { Place key; Py_ssize_t length; } seen[UNIQUE_KEYS];
    int count = 0;
    bool in_object = *p == '{';
    p = blanks_end(p + 1, end);
    while (*p != '}' && *p != ']') {
        if (in_object) {
            Place key = p;
            p = string_end(p + 1, end);
            Py_ssize_t length = p - key;
            /* An escape may spell what another key says plainly. */
            if (memchr(key, '\\', length) || count == UNIQUE_KEYS)
                return NULL;
            for (int i = 0; i < count; i++)
                if (seen[i].length == length && memcmp(seen[i].key, key, length) == 0)
                    return NULL;
            seen[count].key = key;
            seen[count++].length = length;
            p = blanks_end(blanks_end(p, end) + 1, end);
        }
        p = unique_end(p, end, depth + 1);
        if (!p)
            return NULL;
        p = blanks_end(p, end);
        if (*p == ',')
            p = blanks_end(p + 1, end);
    }
    return p + 1;
}

/* ---- the fields that are wanted ---------------------------------------------------------------------------------- */

#define MEMBERS 64

typedef struct Object Object;

/* A key of an object that is looked for. `field` numbers what is kept, in the order of declaration; -1: the key must
 * only not occur twice. `inside`: of an object with this key, only these members are kept. */
typedef struct {
    const char *key; /* with its quotes */
    Py_ssize_t length;
    int field;
    bool unique; /* no key twice in the value, at any depth */
    Object *inside;
} Member;

struct Object {
    Member members[MEMBERS];
    int count;
    int8_t slots[2 * MEMBERS]; /* a hash table of places in `members`; -1: free */
};

/* One kept value of a line, or where an object of which members are kept opens or closes: its members lie between. */
typedef enum { VALUE, OPENED, CLOSED } Kind;

typedef struct {
    Kind kind;
    int field;
    Place start;
    size_t length; /* of a value; 0 otherwise */
} Found;

/* The values of one field in the rows that were fed: distinct texts, and for each row which one. */
typedef struct {
    int32_t *codes; /* per row; -1: the field is absent */
    size_t rows, rows_capacity;
    uint8_t *text; /* a JSON array of the distinct values, without its closing bracket */
    size_t used, capacity;
    size_t *starts; /* of each distinct value in `text`; one more: where the next one goes */
    int32_t distinct;
    size_t starts_capacity;
    int32_t *slots; /* a hash table of distinct values; -1: free */
    uint32_t slot_count;
    int32_t last;
} Column;

typedef struct {
    PyObject_HEAD
    Object *root;
    PyObject *declared; /* keeps the keys alive */
    Member **fields;
    int field_count;
    int number_field; /* the field whose value must be a number or null for its row to be fed; -1: none */
    Found *found;
    size_t found_count, found_capacity;
    Column *columns;
    int64_t *places; /* line, offset, length of each row that was fed */
    size_t rows, rows_capacity;
    size_t held;
    bool busy; /* a thread reads a block without holding the interpreter's lock */
} Engine;

static inline unsigned key_hash(Place key, Py_ssize_t length)
{
    return (unsigned)(length * 37 + key[1] * 11 + key[length / 2] * 5 + key[length - 2] * 3) % (2 * MEMBERS);
}

static Member *member_of(Object *object, Place key, Py_ssize_t length)
{
    unsigned slot = key_hash(key, length);
    for (int8_t place; (place = object->slots[slot]) >= 0; slot = (slot + 1) % (2 * MEMBERS)) {
        Member *member = object->members + place;
        if (member->length == length && memcmp(member->key, key, length) == 0)
            return member;
    }
    return NULL;
}

/* Make room for `needed` items of `size` bytes. */
static bool reserve(void **items, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity)
        return true;
    size_t larger = needed + needed / 2 + 16;
    void *moved = PyMem_RawRealloc(*items, larger * size);
    if (!moved)
        return false;
    *items = moved;
    *capacity = larger;
    return true;
}

static bool add_found(Engine *engine, Kind kind, int field, Place start, size_t length)
{
    if (!reserve((void **)&engine->found, &engine->found_capacity, engine->found_count + 1, sizeof(Found)))
        return false;
    engine->found[engine->found_count++] = (Found){kind, field, start, length};
    return true;
}

/* `p` is behind the opening brace of an object whose members are looked for. */
static Place object_end(Engine *engine, Object *object, Place p, Place end, int depth)
{
    uint64_t seen = 0;
    p = blanks_end(p, end);
    if (p < end && *p == '}')
        return p + 1;
    for (;;) {
        Place key = p;
        if (p == end || *p != '"' || !(p = string_end(p + 1, end)))
            return NULL;
        /* An escape may spell a key that is looked for. */
        if (memchr(key, '\\', p - key))
            return NULL;
        Member *member = member_of(object, key, p - key);
        p = blanks_end(p, end);
        if (p == end || *p != ':')
            return NULL;
        p = blanks_end(p + 1, end);
        if (p == end)
            return NULL;
        if (!member) {
            p = value_end(p, end, depth);
        } else {
            uint64_t bit = 1ULL << (member - object->members);
            if (seen & bit)
                return NULL;
            seen |= bit;
            Place value = p;
            if (member->inside && *p == '{') {
                if (!add_found(engine, OPENED, member->field, p, 0))
                    return NULL;
                p = object_end(engine, member->inside, p + 1, end, depth + 1);
                if (!p || !add_found(engine, CLOSED, member->field, p, 0))
                    return NULL;
            } else {
                p = value_end(p, end, depth);
                if (!p || (member->unique && !unique_end(value, p, 0)))
                    return NULL;
                bool is_number = *value == '-' || is_digit(*value);
                if (member->field >= 0) {
                    if (is_number && p - value > INT64_DIGITS && !memchr(value, '.', p - value) &&
                        !memchr(value, 'e', p - value) && !memchr(value, 'E', p - value))
                        return NULL;
                    if (!add_found(engine, VALUE, member->field, value, p - value))
                        return NULL;
                }
            }
        }
        if (!p)
            return NULL;
        p = blanks_end(p, end);
        if (p == end)
            return NULL;
        if (*p == '}')
            return p + 1;
        if (*p != ',')
            return NULL;
        p = blanks_end(p + 1, end);
    }
}

typedef enum { VOUCHED_FOR, BLANK, DOUBTFUL } Judgment;

/* Judge the line that starts at `p` and find its fields; set `stop` behind its line feed. */
static Judgment read_line(Engine *engine, Place p, Place end, Place *stop)
{
    Place start = p;
    engine->found_count = 0;
    p = blanks_end(p, end);
    bool blank = p == end || *p == '\n';
    if (!blank)
        p = *p == '{' ? object_end(engine, engine->root, p + 1, end, 1) : NULL;
    if (p)
        p = blanks_end(p, end);
    if (p && (p == end || *p == '\n')) {
        *stop = p == end ? p : p + 1;
        return blank ? BLANK : VOUCHED_FOR;
    }
    Place line_feed = memchr(start, '\n', end - start);
    *stop = line_feed ? line_feed + 1 : end;
    return DOUBTFUL;
}

/* ---- a line as the text of its projected row --------------------------------------------------------------------- */

static PyObject *projected_text(Engine *engine)
{
    size_t size = 2;
    for (size_t i = 0; i < engine->found_count; i++)
        size += engine->fields[engine->found[i].field]->length + engine->found[i].length + 3;
    PyObject *text = PyBytes_FromStringAndSize(NULL, size);
    if (!text)
        return NULL;
    uint8_t *start = (uint8_t *)PyBytes_AS_STRING(text), *p = start;
    *p++ = '{';
    for (size_t i = 0; i < engine->found_count; i++) {
        Found *found = engine->found + i;
        if (found->kind == CLOSED) {
            p -= p[-1] == ',';
            *p++ = '}';
        } else {
            Member *member = engine->fields[found->field];
            memcpy(p, member->key, member->length);
            p += member->length;
            *p++ = ':';
            if (found->kind == OPENED) {
                *p++ = '{';
                continue;
            }
            memcpy(p, found->start, found->length);
            p += found->length;
        }
        *p++ = ',';
    }
    p -= p[-1] == ',';
    *p++ = '}';
    _PyBytes_Resize(&text, p - start);
    return text;
}

/* Whether the engine may be used now; if not, the exception is set. */
static bool is_usable(Engine *engine)
{
    if (engine->busy)
        PyErr_SetString(PyExc_RuntimeError, "an engine serves one thread at a time");
    else if (!engine->columns)
        PyErr_SetString(PyExc_RuntimeError, "the engine was not made");
    else
        return true;
    return false;
}

/* The end of the first `length` bytes of a buffer, or of all of it. */
static Place block_end(const Py_buffer *buffer, Py_ssize_t length)
{
    return (Place)buffer->buf + (length < 0 ? 0 : length < buffer->len ? length : buffer->len);
}

PyDoc_STRVAR(lines_doc,
"lines(buffer, length)\n--\n\n"
"For each line of the block: where it stops, and its projected row as JSON text.\n\n"
"None in place of the text: not vouched for. Empty: a blank line.");

static PyObject *engine_lines(Engine *engine, PyObject *arguments)
{
    Py_buffer buffer;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(arguments, "y*n", &buffer, &length))
        return NULL;
    if (!is_usable(engine)) {
        PyBuffer_Release(&buffer);
        return NULL;
    }
    PyObject *lines = PyList_New(0);
    Place start = buffer.buf, end = block_end(&buffer, length), p = start;
    while (lines && p < end) {
        Judgment judgment = read_line(engine, p, end, &p);
        PyObject *text = judgment == DOUBTFUL ? Py_NewRef(Py_None)
                         : judgment == BLANK  ? PyBytes_FromStringAndSize(NULL, 0)
                                              : projected_text(engine);
        PyObject *line = text ? Py_BuildValue("nN", (Py_ssize_t)(p - start), text) : NULL;
        if (!line || PyList_Append(lines, line) < 0)
            Py_CLEAR(lines);
        Py_XDECREF(line);
    }
    PyBuffer_Release(&buffer);
    return lines;
}

/* ---- lines as columns of distinct values ------------------------------------------------------------------------- */

static uint32_t text_hash(Place p, size_t length)
{
    uint64_t hash = length * 0x9E3779B97F4A7C15ULL, word;
    for (; length >= 8; p += 8, length -= 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 0xBF58476D1CE4E5B9ULL;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, p, length);
    hash = (hash ^ word) * 0x94D049BB133111EBULL;
    return (uint32_t)(hash >> 32);
}

static inline Place distinct_text(Column *column, int32_t code, size_t *length)
{
    *length = column->starts[code + 1] - column->starts[code] - 1; /* without the comma behind it */
    return column->text + column->starts[code];
}

static bool is_text(Column *column, int32_t code, Place start, size_t length)
{
    size_t known;
    Place text = distinct_text(column, code, &known);
    return known == length && memcmp(text, start, length) == 0;
}

static void enter(Column *column, int32_t code)
{
    size_t length;
    Place text = distinct_text(column, code, &length);
    uint32_t slot = text_hash(text, length) % column->slot_count;
    while (column->slots[slot] >= 0)
        slot = (slot + 1) % column->slot_count;
    column->slots[slot] = code;
}

static bool grow_slots(Column *column)
{
    uint32_t count = column->slot_count ? 2 * column->slot_count : 64;
    int32_t *slots = PyMem_RawRealloc(column->slots, count * sizeof(int32_t));
    if (!slots)
        return false;
    memset(slots, 0xFF, count * sizeof(int32_t));
    column->slots = slots;
    column->slot_count = count;
    for (int32_t code = 0; code < column->distinct; code++)
        enter(column, code);
    return true;
}

/* The code of a value, which is entered if it is new; -1 when memory ran out. */
static int32_t code_of(Column *column, Place start, size_t length)
{
    if (column->distinct && is_text(column, column->last, start, length))
        return column->last;
    if (2 * (uint32_t)column->distinct + 2 > column->slot_count && !grow_slots(column))
        return -1;
    for (uint32_t slot = text_hash(start, length) % column->slot_count; column->slots[slot] >= 0;
         slot = (slot + 1) % column->slot_count)
        if (is_text(column, column->slots[slot], start, length))
            return column->last = column->slots[slot];
    if (!reserve((void **)&column->text, &column->capacity, column->used + length + 2, 1) ||
        !reserve((void **)&column->starts, &column->starts_capacity, column->distinct + 2, sizeof(size_t)))
        return -1;
    if (column->distinct == 0) {
        column->text[0] = '[';
        column->used = 1;
    }
    column->starts[column->distinct] = column->used;
    memcpy(column->text + column->used, start, length);
    column->used += length;
    column->text[column->used++] = ',';
    column->starts[column->distinct + 1] = column->used;
    enter(column, column->distinct);
    return column->last = column->distinct++;
}

/* Rows up to `rows` have no value where none was put. */
static bool pad(Column *column, size_t rows)
{
    if (!reserve((void **)&column->codes, &column->rows_capacity, rows, sizeof(int32_t)))
        return false;
    if (rows > column->rows)
        memset(column->codes + column->rows, 0xFF, (rows - column->rows) * sizeof(int32_t));
    column->rows = rows > column->rows ? rows : column->rows;
    return true;
}

static bool put_row(Engine *engine, int64_t line, int64_t offset, int64_t length)
{
    if (!reserve((void **)&engine->places, &engine->rows_capacity, engine->rows + 1, 3 * sizeof(int64_t)))
        return false;
    for (size_t i = 0; i < engine->found_count; i++) {
        Found *found = engine->found + i;
        if (found->kind != VALUE)
            continue;
        Column *column = engine->columns + found->field;
        size_t used = column->used;
        if (!pad(column, engine->rows + 1))
            return false;
        int32_t code = code_of(column, found->start, found->length);
        if (code < 0)
            return false;
        column->codes[engine->rows] = code;
        engine->held += column->used - used;
    }
    int64_t *place = engine->places + 3 * engine->rows++;
    place[0] = line, place[1] = offset, place[2] = length;
    return true;
}

/* Whether the row that was found is for the columns; else the rules want to see it by itself. */
static bool is_ordinary(Engine *engine)
{
    for (size_t i = 0; i < engine->found_count; i++) {
        Found *found = engine->found + i;
        if (found->kind != VALUE)
            continue;
        uint8_t first = *found->start;
        if (engine->fields[found->field]->inside && first != 'n')
            return false;
        if (found->field == engine->number_field && !(first == '-' || first == 'n' || is_digit(first)))
            return false;
    }
    return true;
}

PyDoc_STRVAR(feed_doc,
"feed(buffer, length, offset, line)\n--\n\n"
"Add the ordinary rows of a block to the columns.\n\n"
"`offset` and `line` are those of its first line. Returns the number of lines, and for each line that was left out, blank\n"
"ones aside, which line it is from 0, where it starts and stops, and the text of its projected row, or None where it is\n"
"not vouched for.");

static PyObject *engine_feed(Engine *engine, PyObject *arguments)
{
    Py_buffer buffer;
    Py_ssize_t length;
    long long offset, line;
    if (!PyArg_ParseTuple(arguments, "y*nLL", &buffer, &length, &offset, &line))
        return NULL;
    if (!is_usable(engine)) {
        PyBuffer_Release(&buffer);
        return NULL;
    }
    engine->busy = true;
    PyObject *left_out = PyList_New(0);
    Place start = buffer.buf, end = block_end(&buffer, length), p = start;
    Py_ssize_t count = 0;
    bool failed = !left_out;
    /* Other threads run meanwhile, which read other blocks with engines of their own. */
    Py_BEGIN_ALLOW_THREADS
    for (; !failed && p < end; count++) {
        Place from = p;
        Judgment judgment = read_line(engine, p, end, &p);
        if (judgment == BLANK)
            continue;
        if (judgment == VOUCHED_FOR && is_ordinary(engine)) {
            if (put_row(engine, line + count, offset + (from - start), p - from))
                continue;
            Py_BLOCK_THREADS
            PyErr_NoMemory();
            failed = true;
        } else {
            Py_BLOCK_THREADS
            PyObject *text = judgment == VOUCHED_FOR ? projected_text(engine) : Py_NewRef(Py_None);
            PyObject *odd = text ? Py_BuildValue("nnnN", count, (Py_ssize_t)(from - start), (Py_ssize_t)(p - start), text)
                                 : NULL;
            failed = !odd || PyList_Append(left_out, odd) < 0;
            Py_XDECREF(odd);
        }
        Py_UNBLOCK_THREADS
    }
    Py_END_ALLOW_THREADS
    engine->busy = false;
    PyBuffer_Release(&buffer);
    if (failed)
        Py_CLEAR(left_out);
    return left_out ? Py_BuildValue("nN", count, left_out) : NULL;
}

PyDoc_STRVAR(take_doc,
"take()\n--\n\n"
"The rows that were fed since the last time, as columns: places and fields.\n\n"
"Places: int64 values, three a row: line, offset, length. For each field None when no row has it, else the code of each\n"
"row as int32 values (-1: absent) and the JSON array of the distinct values that the codes number.");

static PyObject *engine_take(Engine *engine, PyObject *unused)
{
    (void)unused;
    if (!is_usable(engine))
        return NULL;
    PyObject *fields = PyList_New(engine->field_count);
    for (int i = 0; fields && i < engine->field_count; i++) {
        Column *column = engine->columns + i;
        PyObject *values = NULL;
        if (!column->distinct)
            values = Py_NewRef(Py_None);
        else if (pad(column, engine->rows)) {
            column->text[column->used - 1] = ']';
            values = Py_BuildValue("y#y#", (char *)column->codes, (Py_ssize_t)(engine->rows * sizeof(int32_t)),
                                   (char *)column->text, (Py_ssize_t)column->used);
        } else
            PyErr_NoMemory();
        if (values)
            PyList_SET_ITEM(fields, i, values);
        else
            Py_CLEAR(fields);
    }
    PyObject *taken = fields ? Py_BuildValue("y#N", (char *)engine->places,
                                             (Py_ssize_t)(engine->rows * 3 * sizeof(int64_t)), fields)
                             : NULL;
    for (int i = 0; i < engine->field_count; i++) {
        Column *column = engine->columns + i;
        column->rows = column->distinct = column->last = 0;
        column->used = 0;
        if (column->slot_count)
            memset(column->slots, 0xFF, column->slot_count * sizeof(int32_t));
    }
    engine->rows = 0;
    engine->held = 0;
    return taken;
}

/* ---- the Python type --------------------------------------------------------------------------------------------- */

static void free_object(Object *object)
{
    for (int i = 0; object && i < object->count; i++)
        free_object(object->members[i].inside);
    PyMem_RawFree(object);
}

/* Build what is looked for from nested tuples (key with quotes, is kept, is unique, members inside or None). */
static Object *build_object(Engine *engine, PyObject *members)
{
    Object *object = PyMem_RawCalloc(1, sizeof(Object));
    Py_ssize_t count = PyTuple_Check(members) ? PyTuple_GET_SIZE(members) : MEMBERS + 1;
    if (!object) {
        PyErr_NoMemory();
        return NULL;
    }
    if (count > MEMBERS) {
        PyErr_SetString(PyExc_ValueError, "expected a tuple of at most 64 members");
        goto failed;
    }
    memset(object->slots, 0xFF, sizeof object->slots);
    for (Py_ssize_t i = 0; i < count; i++) {
        Member *member = object->members + object->count++;
        int kept, unique;
        PyObject *inside, *given = PyTuple_GET_ITEM(members, i);
        if (!PyTuple_Check(given)) {
            PyErr_SetString(PyExc_TypeError, "expected a tuple for each member");
            goto failed;
        }
        if (!PyArg_ParseTuple(given, "y#ppO", &member->key, &member->length, &kept, &unique, &inside))
            goto failed;
        if (member->length < 2) {
            PyErr_SetString(PyExc_ValueError, "expected a key with its quotes");
            goto failed;
        }
        member->unique = unique;
        member->field = -1;
        if (kept) {
            Member **fields = PyMem_RawRealloc(engine->fields, (engine->field_count + 1) * sizeof(Member *));
            if (!fields) {
                PyErr_NoMemory();
                goto failed;
            }
            engine->fields = fields;
            member->field = engine->field_count;
            engine->fields[engine->field_count++] = member;
        }
        if (inside != Py_None && !(member->inside = build_object(engine, inside)))
            goto failed;
        unsigned slot = key_hash((Place)member->key, member->length);
        while (object->slots[slot] >= 0)
            slot = (slot + 1) % (2 * MEMBERS);
        object->slots[slot] = (int8_t)i;
    }
    return object;
failed:
    free_object(object);
    return NULL;
}

static int engine_init(Engine *engine, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"members", "number_field", NULL};
    PyObject *members;
    engine->number_field = -1;
    if (engine->root) {
        PyErr_SetString(PyExc_RuntimeError, "an engine is made once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|i", names, &members, &engine->number_field))
        return -1;
    engine->declared = Py_NewRef(members);
    engine->root = build_object(engine, members);
    if (!engine->root)
        return -1;
    engine->columns = PyMem_RawCalloc(engine->field_count ? engine->field_count : 1, sizeof(Column));
    if (!engine->columns) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void engine_dealloc(Engine *engine)
{
    for (int i = 0; engine->columns && i < engine->field_count; i++) {
        PyMem_RawFree(engine->columns[i].codes);
        PyMem_RawFree(engine->columns[i].text);
        PyMem_RawFree(engine->columns[i].starts);
        PyMem_RawFree(engine->columns[i].slots);
    }
    PyMem_RawFree(engine->columns);
    PyMem_RawFree(engine->places);
    PyMem_RawFree(engine->found);
    PyMem_RawFree(engine->fields);
    free_object(engine->root);
    Py_XDECREF(engine->declared);
    Py_TYPE(engine)->tp_free((PyObject *)engine);
}

static PyObject *engine_rows(Engine *engine, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(engine->rows);
}

static PyObject *engine_held(Engine *engine, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(engine->held);
}

static PyMethodDef engine_methods[] = {
    {"lines", (PyCFunction)engine_lines, METH_VARARGS, lines_doc},
    {"feed", (PyCFunction)engine_feed, METH_VARARGS, feed_doc},
    {"take", (PyCFunction)engine_take, METH_NOARGS, take_doc},
    {NULL},
};

static PyGetSetDef engine_properties[] = {
    {"rows", (getter)engine_rows, NULL, "Rows that wait to be taken.", NULL},
    {"held", (getter)engine_held, NULL, "Bytes of the distinct values that wait to be taken.", NULL},
    {NULL},
};

static PyTypeObject engine_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "rollout_assets.core.jsonl._engine.Engine",
    .tp_doc = PyDoc_STR("Engine(members, number_field=-1)\n--\n\nReads blocks of lines. Not for two threads at a time."),
    .tp_basicsize = sizeof(Engine),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)engine_init,
    .tp_dealloc = (destructor)engine_dealloc,
    .tp_methods = engine_methods,
    .tp_getset = engine_properties,
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_engine",
    .m_doc = "The compiled engine: vouches for whole lines, and finds the fields in them that rules read.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__engine(void)
{
    PyObject *made = PyType_Ready(&engine_type) < 0 ? NULL : PyModule_Create(&module);
    if (made && PyModule_AddObjectRef(made, "Engine", (PyObject *)&engine_type) < 0)
        Py_CLEAR(made);
    return made;
}
