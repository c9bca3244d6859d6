// Random numbers from a NumPy bit generator, those that its Generator.integers gives: so that a loop of small draws
// need not go through Python. The Python side checks that they still are the same before it relies on them.
#pragma once

#include <cstdint>

namespace coassoc {

// What the capsule of a BitGenerator points to (numpy/random/bitgen.h).
struct BitGenerator {
    void* state;
    uint64_t (*next_uint64)(void*);
    uint32_t (*next_uint32)(void*);
    double (*next_double)(void*);
    uint64_t (*next_raw)(void*);
};

// The high and the low half of a * b.
inline uint64_t multiply(uint64_t a, uint64_t b, uint64_t& low) {
#if defined(__SIZEOF_INT128__)
    const unsigned __int128 whole = (unsigned __int128)a * b;
    low = (uint64_t)whole;
    return (uint64_t)(whole >> 64);
#else
    const uint64_t a1 = a >> 32, a0 = a & 0xFFFFFFFF, b1 = b >> 32, b0 = b & 0xFFFFFFFF;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = (middle & 0xFFFFFFFF) + a0 * b1;
    low = a * b;
    return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

// Uniform below `end`, which is at least 1: the high half of end * random, drawn again where the low half would favour
// some numbers (Lemire, 2019).
inline uint64_t draw_below(BitGenerator& random, uint64_t end) {
    if (end == 1) return 0;
    if (end == uint64_t(1) << 32) return random.next_uint32(random.state);
    if (end < uint64_t(1) << 32) {
        uint64_t whole = (uint64_t)random.next_uint32(random.state) * end;
        if ((uint32_t)whole < (uint32_t)end) {
            const uint32_t least = (uint32_t)(-(uint32_t)end) % (uint32_t)end;
            while ((uint32_t)whole < least) whole = (uint64_t)random.next_uint32(random.state) * end;
        }
        return whole >> 32;
    }
    uint64_t low, high = multiply(random.next_uint64(random.state), end, low);
    if (low < end) {
        const uint64_t least = (0 - end) % end;
        while (low < least) high = multiply(random.next_uint64(random.state), end, low);
    }
    return high;
}

}  // namespace coassoc
