// Assignment by byte permutes (AVX-512 VBMI): one instruction looks 64 labels up in a table of 7-bit scores. Rows
// whose best and second are too close for 7 bits are done again with the int32 table, so labels stay exact.
#pragma once

namespace coassoc {
namespace {

uint32_t narrow_rows(const int32_t* __restrict rows, int64_t n, bool missing, int32_t k, const NarrowStep& step,
                     uint8_t* __restrict out, int64_t stride) {
    constexpr int64_t kSome = 4096;  // entries at a time
    const float inverse = 1.0f / (float)step.size;
    const int32_t base = step.base;
    const uint32_t size = step.size, top = step.top;
    uint32_t worst = 0;
    // any whole number near the quotient will do: its distance from the true height is measured
    const auto level_of = [=](int32_t value, uint32_t& far) {
        const uint32_t height = (uint32_t)value - (uint32_t)base;
        const uint32_t near = smaller((uint32_t)(int32_t)((float)height * inverse + 0.5f), top);
        const int32_t off = (int32_t)(height - near * size);
        far = larger(far, (uint32_t)(off < 0 ? -off : off));
        return (uint8_t)near;
    };
    uint8_t level[kSome];
    int64_t f = 0, c = 0;
    for (int64_t from = 0; from < n * k; from += kSome) {
        const int64_t count = smaller(kSome, n * k - from);
        uint32_t far = 0;
        for (int64_t i = 0; i < count; ++i) level[i] = level_of(rows[from + i], far);
        worst = larger(worst, far);
        for (int64_t i = 0; i < count; ++i) {
            out[c * stride + f] = level[i];
            if (++c == k) c = 0, ++f;
        }
    }
    for (c = 0; missing && c < k; ++c) out[c * stride + n] = level_of(0, worst);
    return worst;
}

// A part of the narrow table in registers: 64, 128 or 256 entries.
template <int P>
struct Part {
    __m512i t[P];
    explicit Part(const uint8_t* from) {
        for (int i = 0; i < P; ++i) t[i] = _mm512_loadu_si512(from + 64 * i);
    }
    __m512i at(__m512i code) const {
        if constexpr (P == 1) return _mm512_permutexvar_epi8(code, t[0]);
        if constexpr (P == 2) return _mm512_permutex2var_epi8(t[0], code, t[1]);
        if constexpr (P == 4)
            return _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), _mm512_permutex2var_epi8(t[0], code, t[1]),
                                          _mm512_permutex2var_epi8(t[2], code, t[3]));
    }
};

// Adds the scores of `count` partitions of one size: `all` holds pairs of lanes as 16-bit numbers (odd lane in the
// high byte), `odd` the odd lanes alone; even = all - 256 odd. Parts follow each other in the order of `column`.
template <int P, int B>
inline const uint8_t* add_parts(const uint8_t* part, const int64_t* column, int count, const uint8_t* const* block,
                                __m512i* all, __m512i* odd) {
    int q = 0;
    for (; q + 1 < count; q += 2, part += 128 * P) {
        const int64_t a = column[q], b = column[q + 1];
        const Part<P> first(part), second(part + 64 * P);
        for (int i = 0; i < B; ++i) {
            const __m512i x = _mm512_add_epi8(first.at(_mm512_load_si512(block[i] + a)),
                                              second.at(_mm512_load_si512(block[i] + b)));
            all[i] = _mm512_add_epi16(all[i], x);
            odd[i] = _mm512_add_epi16(odd[i], _mm512_srli_epi16(x, 8));
        }
    }
    if (q < count) {
        const Part<P> only(part);
        for (int i = 0; i < B; ++i) {
            const __m512i x = only.at(_mm512_load_si512(block[i] + column[q]));
            all[i] = _mm512_add_epi16(all[i], x);
            odd[i] = _mm512_add_epi16(odd[i], _mm512_srli_epi16(x, 8));
        }
        part += 64 * P;
    }
    return part;
}

struct TopTwo {
    // scores are not negative, so zeros are a start that changes nothing
    __m512i best = _mm512_setzero_si512(), second = _mm512_setzero_si512(), label = _mm512_setzero_si512();
    void meet(__m512i score, __m512i c) {
        label = _mm512_mask_mov_epi16(label, _mm512_cmpgt_epu16_mask(score, best), c);
        second = _mm512_max_epu16(second, _mm512_min_epu16(score, best));
        best = _mm512_max_epu16(best, score);
    }
};

// Sums of one cluster's levels over all partitions, of the even and the odd lanes of B blocks.
template <int B>
inline void sum_levels(const NarrowTable& table, int32_t c, const uint8_t* const* block, __m512i* even, __m512i* odd) {
    const uint8_t* row = table.values + c * table.stride;
    for (int i = 0; i < B; ++i) even[i] = odd[i] = _mm512_setzero_si512();
    const int64_t* column = table.column;
    row = add_parts<1, B>(row, column, table.n64, block, even, odd);
    row = add_parts<2, B>(row, column + table.n64, table.n128, block, even, odd);
    add_parts<4, B>(row, column + table.n64 + table.n128, table.n256, block, even, odd);
    for (int i = 0; i < B; ++i) even[i] = _mm512_sub_epi16(even[i], _mm512_slli_epi16(odd[i], 8));
}

// Labels and gaps (narrow units) of B blocks; every byte is a valid code here, so unused lanes may hold anything.
template <int B>
void score_blocks(const NarrowTable& table, int32_t k, const uint8_t* const* block, uint16_t* label, uint16_t* gap) {
    TopTwo even[B], odd[B];
    for (int32_t c = 0; c < k; ++c) {
        __m512i low[B], high[B];
        sum_levels<B>(table, c, block, low, high);
        const __m512i own = _mm512_set1_epi16((short)c);
        for (int i = 0; i < B; ++i) {
            even[i].meet(low[i], own);
            odd[i].meet(high[i], own);
        }
    }
    alignas(64) static const uint16_t zip_low[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                     8,  40, 9,  41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i zip = _mm512_load_si512(zip_low);
    const __m512i zip_high = _mm512_add_epi16(zip, _mm512_set1_epi16(16));
    for (int i = 0; i < B; ++i) {
        const __m512i ge = _mm512_sub_epi16(even[i].best, even[i].second);
        const __m512i go = _mm512_sub_epi16(odd[i].best, odd[i].second);
        uint16_t *l = label + i * kLanes, *g = gap + i * kLanes;
        _mm512_store_si512(l, _mm512_permutex2var_epi16(even[i].label, zip, odd[i].label));
        _mm512_store_si512(l + 32, _mm512_permutex2var_epi16(even[i].label, zip_high, odd[i].label));
        _mm512_store_si512(g, _mm512_permutex2var_epi16(ge, zip, go));
        _mm512_store_si512(g + 32, _mm512_permutex2var_epi16(ge, zip_high, go));
    }
}

// Blocks wait until there are B of them. A block with many lanes open is used where it lies; rows of sparser ones
// are packed into blocks of their own.
struct Permuter {
    static constexpr int B = 4;
    const View& view;
    const AssignJob& job;
    AssignResult& result;
    uint8_t* scratch;  // B + 1 blocks to pack in, of which at most B wait, then B for gathered ones
    Writer<uint8_t> writer;
    Batch again;
    const uint8_t* block[B];
    uint64_t open[B];
    int64_t base[B];         // first row of the block, or -1: packed rows
    const int64_t* rows[B];  // rows of a packed block
    int64_t packed[B + 1][kLanes];
    int waiting = 0, filled = 0, packing = 0;
    int least;  // open lanes that make a block worth scoring whole

    Permuter(const View& v, const AssignJob& j, char* s, AssignResult& r)
        : view(v), job(j), result(r), scratch((uint8_t*)s), writer(v, j, r) {
        // nanoseconds for a block where it lies and for a row that is packed, measured on one core of a Zen 4
        const double lookups = (double)v.p * j.wide.k;
        const double block = 30 + 0.88 * lookups + (v.blocked ? 0 : 200), row = 15 + 0.0138 * lookups;
        least = (int)(block / row) + 1;
    }

    uint8_t* buffer(int i) { return scratch + (int64_t)i * view.p * kLanes; }

    void take(int64_t b, uint64_t lanes) {
        if (count_bits(lanes) < least) {
            for (; lanes; lanes &= lanes - 1) pack(b * kLanes + lowest_bit(lanes));
            return;
        }
        block[waiting] = block_of<uint8_t>(view, b, buffer(B + 1 + waiting));
        open[waiting] = lanes;
        base[waiting] = b * kLanes;
        next();
    }

    void pack(int64_t row) {
        fetch_row<uint8_t>(view, row);
        packed[packing][filled] = row;
        if (++filled == kLanes) flush_packed();
    }

    void flush_packed() {
        const uint8_t* row[kLanes];
        for (int i = 0; i < kLanes; ++i) row[i] = row_of<uint8_t>(view, packed[packing][smaller(i, filled - 1)]);
        transpose<uint8_t>(row, view.p, buffer(packing));
        block[waiting] = buffer(packing);
        open[waiting] = filled == kLanes ? ~0ull : (1ull << filled) - 1;
        base[waiting] = -1;
        rows[waiting] = packed[packing];
        filled = 0;
        packing = (packing + 1) % (B + 1);
        next();
    }

    void next() {
        if (++waiting == B) run();
    }

    void run() {
        alignas(64) uint16_t label[B * kLanes], gap[B * kLanes];
        if (waiting == B)
            score_blocks<B>(job.narrow, job.wide.k, block, label, gap);
        else
            for (int i = 0; i < waiting; ++i)
                score_blocks<1>(job.narrow, job.wide.k, block + i, label + i * kLanes, gap + i * kLanes);
        for (int i = 0; i < waiting; ++i) settle(i, label + i * kLanes, gap + i * kLanes);
        waiting = 0;
    }

    void settle(int i, const uint16_t* label, const uint16_t* gap) {
        const NarrowTable& narrow = job.narrow;
        alignas(64) uint16_t bound[kLanes];
        uint64_t sure = 0;
        for (int lane = 0; lane < kLanes; lane += 32) {
            const __m512i g = _mm512_load_si512(gap + lane);
            sure |= (uint64_t)_mm512_cmpge_epu16_mask(g, _mm512_set1_epi16((short)narrow.need)) << lane;
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint32_t sound = gap[lane] > narrow.slack ? gap[lane] - narrow.slack : 0;
            bound[lane] = (uint16_t)smaller<uint32_t>(sound * narrow.scale, 65535);
        }
        uint64_t redo = open[i] & ~sure;
        const uint64_t done = open[i] & sure;
        if (base[i] >= 0) {
            const int64_t first = base[i];
            uint64_t moved = 0;
            for (int lane = 0; lane < kLanes; lane += 16) {
                const __mmask16 some = (__mmask16)(done >> lane);
                const __m512i now = _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i*)(label + lane)));
                const __m512i was = _mm512_maskz_loadu_epi32(some, job.labels + first + lane);
                moved |= (uint64_t)_mm512_mask_cmpneq_epi32_mask(some, now, was) << lane;
                _mm256_mask_storeu_epi16(job.bounds + first + lane, some,
                                         _mm256_load_si256((const __m256i*)(bound + lane)));
            }
            if (!job.delta) {
                result.moved += count_bits(moved);
                for (int lane = 0; lane < kLanes; lane += 16)
                    _mm512_mask_storeu_epi32(job.labels + first + lane, (__mmask16)(moved >> lane),
                                             _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i*)(label + lane))));
                moved = 0;
            }
            for (; moved; moved &= moved - 1) {
                const int lane = lowest_bit(moved);
                writer.move(first + lane, job.labels[first + lane], label[lane]);
            }
            for (; redo; redo &= redo - 1) again_row(first + lowest_bit(redo));
        } else {
            for (uint64_t left = done; left; left &= left - 1) {
                const int lane = lowest_bit(left);
                writer.write(rows[i][lane], label[lane], bound[lane]);
            }
            for (; redo; redo &= redo - 1) again_row(rows[i][lowest_bit(redo)]);
        }
    }

    void again_row(int64_t row) {
        ++result.redone;
        writer.add(again, row);
    }

    void finish() {
        if (filled) flush_packed();
        if (waiting) run();
        writer.evaluate(again);
        writer.finish();
    }
};

void assign_permuted(const View& view, const AssignJob& job, int64_t b0, int64_t b1, char* scratch,
                     AssignResult& result) {
    Permuter permuter(view, job, scratch, result);
    for (int64_t b = b0; b < b1; ++b) {
        const uint64_t open = open_lanes(view, job, b);
        if (!open) continue;
        result.evaluated += count_bits(open);
        permuter.take(b, open);
    }
    permuter.finish();
}

}  // namespace
}  // namespace coassoc
