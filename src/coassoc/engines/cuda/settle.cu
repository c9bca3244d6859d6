// Exchange moves applied on the GPU: the fourth part of the CUDA engine's source, compiled after moves.cu.
//
// Moves are checked on live counts in order, with the arithmetic of `core/moves.py`. A move reads and changes only the
// columns of its two clusters, so moves of different clusters may run at the same time with the same result. One block
// does all the work. One warp computes two tickets per move: how many earlier moves touch its source and its target
// cluster. The other warps take moves in turn and wait until that many moves of both clusters are done. The earliest
// unfinished move never waits, so there is no deadlock. For the agreement, all moves share N_j and E_j: only the
// expensive x log x is computed in parallel, and the remaining steps strictly in order.

constexpr int SETTLERS = 16;  // warps that settle moves
constexpr int BATCH = 512;    // moves whose tickets are drawn at a time
constexpr int SLOTS = 1024;   // ticket counters; clusters share them when there are more
constexpr int STAGE = 4 * 33; // terms of four sums over 32 partitions, without bank conflicts

struct Settling {
    i64 n;
    int p, k, d, bits, vanish, gathered;
    int unit;          // every partition weighs 1, and integer sums over partitions stay below 2**63
    i64 least, words;  // words: 32-bit words of the state
    double threshold;
};

struct Ticket { int source, target; u32 at_source, at_target; };

// Shared memory of the block besides the state.
struct Progress {
    double stage[SETTLERS][STAGE];
    Ticket tickets[2][BATCH];
    u32 drawn[SLOTS], done[SLOTS];
    u32 turn, padding[3];
};

// The live counts in one array: 64-bit parts first, alpha (d, k) last. The first entry counts the moves made.
struct DensityCounts {
    i64 *squares, *cells, *sizes;
    i64 *together, *observed;  // Σ_j (squares − cells) and Σ_j cells (cells − 1), for unit weights
    double* values;
    u32* alpha;
    __device__ DensityCounts(u32* state, const Settling& a) {
        squares = reinterpret_cast<i64*>(state) + 1;
        cells = squares + (i64)a.p * a.k;
        sizes = cells + (i64)a.p * a.k;
        together = sizes + a.k;
        observed = together + a.k;
        values = reinterpret_cast<double*>(observed + a.k);
        alpha = reinterpret_cast<u32*>(values + a.k);
    }
};

struct AgreementCounts {
    i64 *cells, *sizes, *shared, *entropy;
    double* values;
    u32* alpha;
    __device__ AgreementCounts(u32* state, const Settling& a) {
        cells = reinterpret_cast<i64*>(state) + 1;
        sizes = cells + (i64)a.p * a.k;
        shared = sizes + a.k;
        entropy = shared + a.p;
        values = reinterpret_cast<double*>(entropy + a.p);
        alpha = reinterpret_cast<u32*>(values + a.p);
    }
};

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Tickets of `count` moves from `first` on, by one warp: touches of a slot by earlier moves, each move counted once.
// It also prefetches what the moves will read.
template <class CODE, class LABEL>
__device__ void draw_tickets(const Settling& a, Progress& progress, i64 first, int count, const CODE* codes, const i64* rows,
                             const int* targets, const u32* copies, const LABEL* labels, Ticket* out) {
    const int lane = threadIdx.x & 31, bytes = a.p * (int)sizeof(CODE);
    for (int base = 0; base < count; base += 32) {
        const bool mine = base + lane < count;
        Ticket it = {-1, -1, 0, 0};
        int from = -1, to = -1;
        if (mine) {
            const i64 number = first + base + lane, row = rows[number];
            const char* here = reinterpret_cast<const char*>(codes + (a.gathered ? number : row) * a.p);
            for (int at = 0; at < bytes; at += 128) prefetch(here + at);
            prefetch(here + bytes - 1);
            if (copies) prefetch(copies + row);
            it.source = labels[row];
            it.target = targets[number];
            from = it.source & (SLOTS - 1);
            to = it.target & (SLOTS - 1);
        }
        for (int other = 0; other < 32; ++other) {
            const int x = __shfl_sync(ALL, from, other), y = __shfl_sync(ALL, to, other);
            if (other < lane) {
                it.at_source += x == from || y == from;
                it.at_target += x == to || y == to;
            }
        }
        if (mine) {
            it.at_source += progress.drawn[from];
            it.at_target += progress.drawn[to];
            out[base + lane] = it;
        }
        __syncwarp();
        if (mine) {
            atomicAdd(progress.drawn + from, 1u);
            if (to != from) atomicAdd(progress.drawn + to, 1u);
        }
        __syncwarp();
    }
}

// Shared words that one warp writes and others wait for.
__device__ __forceinline__ u32 read_word(const u32* at) {
#if __CUDA_ARCH__ >= 700
    u32 word;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(word) : "r"((u32)__cvta_generic_to_shared(at)) : "memory");
    return word;
#else
    const u32 word = *(const volatile u32*)at;
    __threadfence_block();
    return word;
#endif
}

__device__ __forceinline__ void write_word(u32* at, u32 word) {
#if __CUDA_ARCH__ >= 700
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(at)), "r"(word) : "memory");
#else
    __threadfence_block();
    *(volatile u32*)at = word;
#endif
}

// Sleep while the turn is far, to leave issue slots to the working warps.
__device__ __forceinline__ void back_off(u32 behind) {
#if __CUDA_ARCH__ >= 700
    if (behind > 1) __nanosleep(min(behind * 40u, 400u));
#endif
}

// Wait until every earlier move of the two clusters is done; its writes are then visible.
__device__ __forceinline__ void await_clusters(Progress& progress, const Ticket& it) {
    const u32 *from = progress.done + (it.source & (SLOTS - 1)), *to = progress.done + (it.target & (SLOTS - 1));
    for (;;) {
        const u32 behind = max(it.at_source - read_word(from), it.at_target - read_word(to));
        if (__all_sync(ALL, behind == 0)) break;
        back_off(behind);
    }
}

__device__ __forceinline__ void release_clusters(Progress& progress, const Ticket& it) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) {
        write_word(progress.done + (it.source & (SLOTS - 1)), it.at_source + 1);
        write_word(progress.done + (it.target & (SLOTS - 1)), it.at_target + 1);
    }
}

// Sum of 32 words over the lanes, exact. SMALL: it fits a word, and all is in `low`.
template <bool SMALL> __device__ __forceinline__ i64 warp_sum(u32 low, u32 high) {
#if __CUDA_ARCH__ >= 800
    low = __reduce_add_sync(ALL, low);
    if (!SMALL) high = __reduce_add_sync(ALL, high);
#else
    for (int step = 16; step; step >>= 1) {
        low += __shfl_xor_sync(ALL, low, step);
        if (!SMALL) high += __shfl_xor_sync(ALL, high, step);
    }
#endif
    return SMALL ? (i64)low : (i64)low + ((i64)high << 16);
}

// `sum` plus the first `inside` of 32 terms, in order; the others are 0. All are loaded before the first addition.
__device__ __forceinline__ double in_order(double sum, const double* terms, int inside) {
    double held[32];
#pragma unroll
    for (int l = 0; l < 32; ++l) held[l] = terms[l];
#pragma unroll
    for (int l = 0; l < 32; l += 4)
        if (l < inside) sum = sum + held[l] + held[l + 1] + held[l + 2] + held[l + 3];
    return sum;
}

// Row of alpha, times k, that a lane's partition of each chunk reads; −1: no label.
template <class CODE, int CHUNKS>
__device__ __forceinline__ void find_lines(const Settling& a, const CODE* here, const int* offsets,
                                           const u32* n_clusters, int (&line)[CHUNKS]) {
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
    for (int i = 0; i < CHUNKS; ++i) {
        const int j = i * 32 + (threadIdx.x & 31);
        line[i] = -1;
        if (j < a.p) {
            const u32 code = __ldg(here + j);
            if (code < __ldg(n_clusters + j)) line[i] = (__ldg(offsets + j) + (int)code) * a.k;
        }
    }
}

__device__ __forceinline__ bool may_move(const Settling& a, i64 source, i64 target, i64 m) {
    const i64 left = source - m;
    return (left >= a.least || (left == 0 && a.vanish)) && (target > 0 || m >= a.least);
}

// Whether one move was made; run by a warp, a lane per partition.
//
// The next move of either cluster waits for this one, so the latency of its operations matters. With unit weights the
// sums over partitions are integers and may be updated in any order: they equal the ordered sums of doubles as long as
// they are below 2**53. PLAIN: unit weights, one copy each, sums that fit a word.
template <int CHUNKS, bool PLAIN>
__device__ bool settle_one(const Settling& a, Progress& progress, const DensityCounts& s, const Ticket& it, i64 copies, u32,
                           const int (&line)[CHUNKS], const double* v) {
    const int lane = threadIdx.x & 31, o = it.source, c = it.target;
    const i64 m = PLAIN ? 1 : copies;
    const int side = lane & 1, cluster = side ? c : o;  // even lanes: the source, odd ones: the target
    const i64 by = side ? m : -m;
    i64 q_o[CHUNKS], q_c[CHUNKS], n_o[CHUNKS], n_c[CHUNKS];
    u32 a_o[CHUNKS], a_c[CHUNKS];
    u32 low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
    int seen = 0;
    await_clusters(progress, it);
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
    for (int i = 0; i < CHUNKS; ++i) {
        const int j = i * 32 + lane;
        const int at = j * a.k;
        q_o[i] = q_c[i] = n_o[i] = n_c[i] = 0;
        if (j < a.p) {
            q_o[i] = s.squares[at + o];
            q_c[i] = s.squares[at + c];
            n_o[i] = s.cells[at + o];
            n_c[i] = s.cells[at + c];
        }
        a_o[i] = line[i] < 0 ? 0 : s.alpha[line[i] + o];
        a_c[i] = line[i] < 0 ? 0 : s.alpha[line[i] + c];
    }
    const i64 size_o = s.sizes[o], size_c = s.sizes[c];
    i64 together = s.together[cluster], observed = s.observed[cluster];
    const double before = s.values[cluster];
    if (!may_move(a, size_o, size_c, m)) return false;
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
    for (int i = 0; i < CHUNKS; ++i) {
        const bool here = line[i] >= 0;
        const u32 word[4] = {a_o[i], a_c[i], here ? (u32)n_o[i] : 0, here ? (u32)n_c[i] : 0};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            low[w] += PLAIN ? word[w] : word[w] & 0xffff;
            if (!PLAIN) high[w] += word[w] >> 16;
        }
        seen += __popc(__ballot_sync(ALL, here));
        if (here) {
            q_o[i] -= m * (2 * (i64)a_o[i] - m);
            q_c[i] += m * (2 * (i64)a_c[i] + m);
            n_o[i] -= m;
            n_c[i] += m;
        }
    }
    const i64 size = (side ? size_c : size_o) + by;
    bool ordered = true;
    double value = 0.0;
    if (PLAIN || a.unit) {
        const i64 alpha_o = warp_sum<PLAIN>(low[0], high[0]), alpha_c = warp_sum<PLAIN>(low[1], high[1]);
        const i64 cells_o = warp_sum<PLAIN>(low[2], high[2]), cells_c = warp_sum<PLAIN>(low[3], high[3]);
        together += by * (2 * (side ? alpha_c : alpha_o) + by * seen) - by * seen;
        observed += by * (2 * (side ? cells_c : cells_o) + (by - 1) * seen);
        ordered = __any_sync(ALL, observed >= (1ll << 53));
        if (observed > 0) value = (double)size * ((double)together / (double)observed);
    }
    if (ordered) {
        double* stage = progress.stage[threadIdx.x >> 5];
        double sum = 0.0;  // of t_o, p_o, t_c, p_c in lanes 0 to 3
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
        for (int i = 0; i < CHUNKS; ++i) {
            const int j = i * 32 + lane;
            const double weight = j < a.p ? __ldg(v + j) : 0.0;
            stage[lane] = weight * (double)(q_o[i] - n_o[i]);
            stage[33 + lane] = weight * (double)(n_o[i] * (n_o[i] - 1));
            stage[66 + lane] = weight * (double)(q_c[i] - n_c[i]);
            stage[99 + lane] = weight * (double)(n_c[i] * (n_c[i] - 1));
            __syncwarp();
            sum = in_order(sum, stage + (lane & 3) * 33, a.p - i * 32);
            __syncwarp();
        }
        const double t = __shfl_sync(ALL, sum, 2 * side), p = __shfl_sync(ALL, sum, 2 * side + 1);
        value = p > 0.0 ? (double)size * (t / p) : 0.0;
    }
    const double change = value - before;
    if (!(__shfl_sync(ALL, change, 0) + __shfl_sync(ALL, change, 1) > a.threshold)) return false;
    __syncwarp();
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
    for (int i = 0; i < CHUNKS; ++i) {
        if (line[i] < 0) continue;
        const int at = (i * 32 + lane) * a.k;
        s.squares[at + o] = q_o[i];
        s.squares[at + c] = q_c[i];
        s.cells[at + o] = n_o[i];
        s.cells[at + c] = n_c[i];
        s.alpha[line[i] + o] = a_o[i] - (u32)m;
        s.alpha[line[i] + c] = a_c[i] + (u32)m;
    }
    if (lane < 2) {
        s.sizes[cluster] = size;
        s.values[cluster] = value;
        s.together[cluster] = together;
        s.observed[cluster] = observed;
    }
    return true;
}

template <int CHUNKS, bool PLAIN>
__device__ bool settle_one(const Settling& a, Progress& progress, const AgreementCounts& s, const Ticket& it, i64 m, u32 number,
                           const int (&line)[CHUNKS], const double* v) {
    const int lane = threadIdx.x & 31, o = it.source, c = it.target;
    double* stage = progress.stage[threadIdx.x >> 5];
    await_clusters(progress, it);
    const bool allowed = may_move(a, s.sizes[o], s.sizes[c], m);
    i64 common[CHUNKS], spread[CHUNKS];  // changes of N_j and E_j, then what they become
    double term[CHUNKS];
    if (allowed) {
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
        for (int i = 0; i < CHUNKS; ++i) {
            if (line[i] < 0) continue;
            const int at = (i * 32 + lane) * a.k;
            const i64 to = s.alpha[line[i] + c], from = s.alpha[line[i] + o], in = s.cells[at + c], out = s.cells[at + o];
            const i64 joint = (fixed_xlogx(to + m, a.bits) - fixed_xlogx(to, a.bits)) +
                              (fixed_xlogx(from - m, a.bits) - fixed_xlogx(from, a.bits));
            const i64 own = (fixed_xlogx(in + m, a.bits) - fixed_xlogx(in, a.bits)) +
                            (fixed_xlogx(out - m, a.bits) - fixed_xlogx(out, a.bits));
            common[i] = joint - own;
            spread[i] = -own;
        }
    }
    for (;;) {
        const u32 behind = number - read_word(&progress.turn);
        if (__all_sync(ALL, behind == 0)) break;
        back_off(behind);
    }
    double gain = 0.0;
    if (allowed) {
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
        for (int i = 0; i < CHUNKS; ++i) {
            const int j = i * 32 + lane;
            double difference = 0.0;
            if (line[i] >= 0) {
                const double weight = __ldg(v + j);
                common[i] += s.shared[j];
                spread[i] += s.entropy[j];
                term[i] = spread[i] == 0 ? weight : (2.0 * weight) * (double)common[i] / (double)spread[i];
                difference = term[i] - s.values[j];
            }
            stage[lane] = difference;
            __syncwarp();
            gain = in_order(gain, stage, a.p - i * 32);
            __syncwarp();
        }
    }
    const bool made = allowed && gain > a.threshold;
    if (made) {
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
        for (int i = 0; i < CHUNKS; ++i) {
            if (line[i] < 0) continue;
            const int j = i * 32 + lane;
            s.shared[j] = common[i];
            s.entropy[j] = spread[i];
            s.values[j] = term[i];
        }
    }
    __syncwarp();
    if (lane == 0) write_word(&progress.turn, number + 1);
    if (made) {
#pragma unroll (CHUNKS <= 4 ? CHUNKS : 1)
        for (int i = 0; i < CHUNKS; ++i) {
            if (line[i] < 0) continue;
            const int at = (i * 32 + lane) * a.k;
            s.cells[at + o] -= m;
            s.cells[at + c] += m;
            s.alpha[line[i] + o] -= (u32)m;
            s.alpha[line[i] + c] += (u32)m;
        }
        if (lane == 0) {
            s.sizes[o] -= m;
            s.sizes[c] += m;
        }
    }
    return made;
}

// One block of SETTLERS + 1 warps. `codes` are those of all rows, or of the moves alone when gathered.
template <class COUNTS, class CODE, class LABEL, int CHUNKS, bool ON_CHIP, bool PLAIN>
__global__ void __launch_bounds__((SETTLERS + 1) * 32)
settle_moves(const CODE* codes, const Settling a, const int* offsets, const u32* n_clusters, const double* v,
             const i64* rows, const int* targets, const u32* copies, LABEL* labels, u32* state) {
    extern __shared__ double chip[];
    Progress& progress = *reinterpret_cast<Progress*>(chip);
    u32* held = ON_CHIP ? reinterpret_cast<u32*>(&progress + 1) : state;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    for (int i = threadIdx.x; i < SLOTS; i += blockDim.x) progress.drawn[i] = progress.done[i] = 0;
    if (threadIdx.x == 0) progress.turn = 0;
    if (ON_CHIP)
        for (i64 i = threadIdx.x; i < a.words; i += blockDim.x) held[i] = state[i];
    __syncthreads();
    const auto draw = [&](i64 first, int into) {
        const int count = (int)min((i64)BATCH, a.n - first);
        if (count > 0) draw_tickets(a, progress, first, count, codes, rows, targets, copies, labels, progress.tickets[into]);
    };
    if (warp == SETTLERS) draw(0, 0);
    __syncthreads();
    const COUNTS counts(held, a);
    u32 made = 0;
    int batch = 0;
    for (i64 first = 0; first < a.n; first += BATCH, ++batch) {
        const int count = (int)min((i64)BATCH, a.n - first);
        if (warp == SETTLERS) {
            draw(first + BATCH, (batch + 1) & 1);
        } else {
            for (int i = warp; i < count; i += SETTLERS) {
                const i64 number = first + i, row = rows[number];
                const Ticket it = progress.tickets[batch & 1][i];
                const i64 m = copies ? copies[row] : 1;
                int line[CHUNKS];
                find_lines<CODE, CHUNKS>(a, codes + (a.gathered ? number : row) * a.p, offsets, n_clusters, line);
                const bool move = settle_one<CHUNKS, PLAIN>(a, progress, counts, it, m, (u32)number, line, v);
                release_clusters(progress, it);
                if (move && lane == 0) {
                    labels[row] = (LABEL)it.target;
                    ++made;
                }
            }
        }
        __syncthreads();
    }
    if (lane == 0 && made) atomicAdd(reinterpret_cast<u64*>(held), (u64)made);
    __syncthreads();
    if (ON_CHIP)
        for (i64 i = threadIdx.x; i < a.words; i += blockDim.x) state[i] = held[i];
}
