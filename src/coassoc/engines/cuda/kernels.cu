// Kernels of the CUDA engine, compiled at run time for one (code type, label type, row length, table width) each.
//
// Shared names: n rows of p codes each, row-major, as the caller gave them. Partition j owns the table rows
// starts[j] .. starts[j] + k_j, the last of which is for a missing label; k is the number of clusters.
// Counts are uint32 modulo 2**32: a true count is below 2**32, so intermediate differences may wrap.
// Everything is an integer, added in any order, so no grid shape can change a result.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr int WARP_ROWS = 128;    // rows a warp filters before it scores those that need it
constexpr int QUEUE = 160;        // waiting rows per warp: up to 31 left over and WARP_ROWS new ones
constexpr u32 ONE_SIDED = 64;     // as in core/objectives.py
constexpr int SEED_ROWS = 8192;   // rows summed in one entry of the seeding sums
constexpr int COMPACT_ROWS = 4096;
constexpr u32 ALL = 0xffffffffu;

struct Starts { int at[32]; };    // by value, so that a fixed-length row reads them as constants

// -- one row of codes --------------------------------------------------------------------------------------

template <class CODE, int P> struct Row {  // P > 0: rows are whole aligned 32-bit words, kept in registers
    static constexpr int PER = 4 / sizeof(CODE), N = P / PER;
    u32 word[N];
    __device__ __forceinline__ void load(const CODE* codes, i64 row, int) {
        const u32* at = reinterpret_cast<const u32*>(codes) + row * N;
#pragma unroll
        for (int i = 0; i < N; ++i) word[i] = __ldg(at + i);
    }
    __device__ __forceinline__ u32 code(int j) const {
        u32 w = word[j / PER];
        return PER == 1 ? w : (w >> (8 * sizeof(CODE) * (j % PER))) & ((1ull << (8 * sizeof(CODE))) - 1);
    }
};

template <class CODE> struct Row<CODE, 0> {  // any length, read in place
    const CODE* here;
    __device__ __forceinline__ void load(const CODE* codes, i64 row, int p) { here = codes + row * p; }
    __device__ __forceinline__ u32 code(int j) const { return __ldg(here + j); }
};

template <int P> __device__ __forceinline__ int start_of(const Starts& fixed, const int* starts, int j) {
    return P > 0 ? fixed.at[j] : __ldg(starts + j);
}

__device__ __forceinline__ u64 block_sum(u64 value, u64* scratch) {  // valid in thread 0
    for (int step = 16; step; step >>= 1) value += __shfl_down_sync(ALL, value, step);
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < (blockDim.x >> 5) ? scratch[threadIdx.x] : 0;
        for (int step = 16; step; step >>= 1) value += __shfl_down_sync(ALL, value, step);
    }
    __syncthreads();
    return value;
}

// -- the pass ----------------------------------------------------------------------------------------------

struct Pass {
    i64 n;               // rows of this piece
    int p, k;
    int rows;            // rows of the tables: one per base cluster and one per partition for missing labels
    int tiles, tile0;    // tiles of clusters scored by this launch, and the first one
    u32 bound;           // a gap of narrow scores above it is certain; 0: narrow scores are exact
    int narrow_shift;    // narrow gap >> (or << when negative) this = gap byte
    int exact_shift;     // exact gap >> this = gap byte
    int filter;          // gaps are valid: score only rows that may have moved
    int first_group, last_group;
};

// Label of one row from the exact table, found by a whole warp: (gap to the second, label).
template <class CODE>
__device__ u64 exact_label(const CODE* codes, i64 row, const int* starts, const int* exact, const Pass& a) {
    const int lane = threadIdx.x & 31;
    const CODE* here = codes + row * a.p;
    i64 best = (i64)1 << 63, second = (i64)1 << 63;
    for (int c = lane; c < a.k; c += 32) {
        int score = 0;
#pragma unroll 4
        for (int j = 0; j < a.p; ++j)
            score += __ldg(exact + (i64)(__ldg(starts + j) + (int)__ldg(here + j)) * a.k + c);
        i64 key = ((i64)score << 32) | (ALL - c);  // on equal scores the lowest cluster is largest
        second = max(second, min(best, key));
        best = max(best, key);
    }
    for (int step = 16; step; step >>= 1) {
        i64 other = __shfl_xor_sync(ALL, best, step), next = __shfl_xor_sync(ALL, second, step);
        second = max(max(second, next), min(best, other));
        best = max(best, other);
    }
    u32 gap = a.k == 1 ? ALL : (u32)((best >> 32) - (second >> 32));
    return ((u64)gap << 32) | (ALL - (u32)best);
}

// Label every row with the argmax of its summed table rows, lowest cluster on ties; keep counts and gap bytes.
// COUNT: 0 no counts, 1 differences gathered in shared memory, 2 straight to `alpha`. FIRST: no labels before.
// Narrow scores are 16-bit sums, two clusters per word, that cannot carry into each other. A table word holds two
// 16-bit entries, or with BYTES four 8-bit ones: clusters 4w, 4w + 2 in even bytes, 4w + 1, 4w + 3 in odd ones.
template <class CODE, class LABEL, int P, int W, bool BYTES, bool SHARED, int COUNT, bool FIRST>
__global__ void __launch_bounds__(1024, 1)
assign_rows(const CODE* __restrict__ codes, const Pass a, const Starts fixed, const int* __restrict__ starts,
            const u32* __restrict__ narrow, const int* __restrict__ exact, LABEL* labels, u8* gaps,
            const u8* __restrict__ drift, const u32* __restrict__ copies, u32* alpha, u64* state, u64* moved) {
    constexpr int SUMS = BYTES ? 2 * W : W;
    constexpr int STRIDE = W | 1;  // odd: the words of random rows spread over all banks
    extern __shared__ u32 memory[];
    const int lane = threadIdx.x & 31, cells = (a.rows + 1) * a.k;
    const int p = P > 0 ? P : a.p;
    u32* hist = memory;
    u32* table = memory + (COUNT == 1 ? cells : 0);
    u32* queue = table + (SHARED ? a.tiles * a.rows * STRIDE : 0) + (threadIdx.x >> 5) * QUEUE;
    const u32* source = narrow + (i64)a.tile0 * a.rows * W;
    if (COUNT == 1)
        for (int i = threadIdx.x; i < cells; i += blockDim.x) hist[i] = 0;
    if (SHARED)
        for (int i = threadIdx.x; i < a.tiles * a.rows * W; i += blockDim.x) table[i / W * STRIDE + i % W] = source[i];
    __syncthreads();

    const i64 warps = (i64)gridDim.x * (blockDim.x >> 5), warp = (i64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const u32 below = (1u << lane) - 1;
    u32* counts = COUNT == 1 ? hist : alpha;
    int queued = 0;
    u32 n_moved = 0;
    for (u32 round = 0;; ++round) {
        const i64 base = (round * warps + warp) * WARP_ROWS;
        const bool done = base >= a.n;
        if (!done) {
#pragma unroll
            for (int part = 0; part < WARP_ROWS / 32; ++part) {
                const i64 row = base + part * 32 + lane;
                bool active = row < a.n;
                if (a.filter && active) {
                    const u32 gap = gaps[row], shift = __ldg(drift + labels[row]);
                    active = gap <= shift;
                    if (!active && shift && a.last_group) gaps[row] = gap - shift;
                }
                const u32 mask = __ballot_sync(ALL, active);
                if (active) queue[queued + __popc(mask & below)] = round * WARP_ROWS + part * 32 + lane;
                queued += __popc(mask);
            }
            __syncwarp();
        }
        while (queued >= 32 || (done && queued)) {
            const int take = min(queued, 32);
            queued -= take;
            const bool valid = lane < take;
            const u32 entry = queue[queued + (valid ? lane : 0)];
            const i64 row = ((entry / WARP_ROWS) * warps + warp) * WARP_ROWS + entry % WARP_ROWS;
            Row<CODE, P> codes_of;
            codes_of.load(codes, row, p);
            u32 best = 0, second = 0;
            for (int tile = 0; tile < a.tiles; ++tile) {
                const u32* at = SHARED ? table + tile * a.rows * STRIDE : source + (i64)tile * a.rows * W;
                u32 sum[SUMS];
#pragma unroll
                for (int w = 0; w < SUMS; ++w) sum[w] = 0;
#pragma unroll(P > 0 ? P : 4)
                for (int j = 0; j < p; ++j) {
                    const int line = (start_of<P>(fixed, starts, j) + (int)codes_of.code(j)) * (SHARED ? STRIDE : W);
#pragma unroll
                    for (int w = 0; w < W; ++w) {
                        const u32 entries = SHARED ? at[line + w] : __ldg(at + line + w);
                        if (BYTES) {
                            sum[2 * w] += entries & 0x00ff00ffu;
                            sum[2 * w + 1] += __byte_perm(entries, 0, 0x4341);
                        } else {
                            sum[w] += entries;
                        }
                    }
                }
                u32 top = 0, next = 0;  // score in the high half, 65535 - cluster in the low one
#pragma unroll
                for (int w = 0; w < SUMS; ++w) {
                    const int first = BYTES ? 4 * (w / 2) + w % 2 : 2 * w, step = BYTES ? 2 : 1;
                    const u32 low = (sum[w] << 16) | (65535 - first), high = (sum[w] & 0xffff0000u) | (65535 - first - step);
                    next = max(next, min(top, low));
                    top = max(top, low);
                    next = max(next, min(top, high));
                    top = max(top, high);
                }
                top -= (a.tile0 + tile) * 2 * SUMS;
                second = max(max(second, next), min(best, top));
                best = max(best, top);
            }
            if (!a.first_group) {
                const u64 before = valid ? state[row] : 0;
                second = max(max(second, (u32)before), min(best, (u32)(before >> 32)));
                best = max(best, (u32)(before >> 32));
            }
            if (!a.last_group) {
                if (valid) state[row] = ((u64)best << 32) | second;
                continue;
            }
            u32 label = 65535 - (best & 65535u), gap = (best >> 16) - (second >> 16);
            const bool sure = a.bound == 0 || gap > a.bound;
            gap -= a.bound;
            gap = a.narrow_shift >= 0 ? gap >> a.narrow_shift : (gap >> (8 + a.narrow_shift) ? 255 : gap << -a.narrow_shift);
            for (u32 open = __ballot_sync(ALL, valid && !sure); open; open &= open - 1) {
                const int from = __ffs(open) - 1;
                const u64 found = exact_label(codes, __shfl_sync(ALL, row, from), starts, exact, a);
                if (lane == from) {
                    label = (u32)found;
                    gap = (u32)(found >> 32) >> a.exact_shift;
                }
            }
            const u32 old = FIRST || !valid ? 0 : labels[row];
            const bool changed = valid && (FIRST || label != old);
            if (valid) gaps[row] = min(gap, 255u);
            if (changed) labels[row] = label;
            const u32 movers = __ballot_sync(ALL, changed);
            n_moved += __popc(movers);
            if (COUNT == 0 || !movers) continue;
            const u32 weight = changed && copies ? copies[row] : 1;
            if (FIRST || __popc(movers) > 8) {
                if (changed) {
#pragma unroll(P > 0 ? P : 4)
                    for (int j = 0; j < p; ++j) {
                        u32* cell = counts + (i64)(start_of<P>(fixed, starts, j) + (int)codes_of.code(j)) * a.k;
                        atomicAdd(cell + label, weight);
                        if (!FIRST) atomicAdd(cell + old, 0u - weight);
                    }
                    atomicAdd(counts + (i64)a.rows * a.k + label, weight);
                    if (!FIRST) atomicAdd(counts + (i64)a.rows * a.k + old, 0u - weight);
                }
            } else {  // few rows moved: a lane per partition, so that atomics do not collide
                for (u32 open = movers; open; open &= open - 1) {
                    const int from = __ffs(open) - 1;
                    const i64 mover = __shfl_sync(ALL, row, from);
                    const u32 to = __shfl_sync(ALL, label, from), off = __shfl_sync(ALL, old, from);
                    const u32 by = __shfl_sync(ALL, weight, from);
                    for (int j = lane; j <= p; j += 32) {
                        const int line = j == p ? a.rows : __ldg(starts + j) + (int)__ldg(codes + mover * p + j);
                        atomicAdd(counts + (i64)line * a.k + to, by);
                        atomicAdd(counts + (i64)line * a.k + off, 0u - by);
                    }
                }
            }
        }
        if (done) break;
    }
    if (lane == 0 && n_moved) atomicAdd(moved, (u64)n_moved);
    if (COUNT == 1) {
        __syncthreads();
        for (int i = threadIdx.x; i < cells; i += blockDim.x)
            if (hist[i]) atomicAdd(alpha + i, hist[i]);
    }
}

// Counts of partitions [first, last) and, with the last one, sizes. SHARED: gathered per block before they are added.
template <class CODE, class LABEL, bool SHARED>
__global__ void count_rows(const CODE* __restrict__ codes, i64 n, int p, int first, int last, int rows, int k,
                           const int* __restrict__ starts, const LABEL* __restrict__ labels,
                           const u32* __restrict__ copies, u32* alpha) {
    extern __shared__ u32 memory[];
    const i64 origin = (i64)starts[first] * k, cells = (i64)(last == p ? rows + 1 : starts[last]) * k - origin;
    u32* counts = SHARED ? memory : alpha + origin;
    if (SHARED) {
        for (i64 i = threadIdx.x; i < cells; i += blockDim.x) memory[i] = 0;
        __syncthreads();
    }
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n; row += (i64)gridDim.x * blockDim.x) {
        const u32 label = labels[row], weight = copies ? copies[row] : 1;
        for (int j = first; j < last; ++j)
            atomicAdd(counts + (i64)(__ldg(starts + j) + (int)__ldg(codes + row * p + j)) * k + label - origin, weight);
        if (last == p) atomicAdd(counts + (i64)rows * k + label - origin, weight);
    }
    if (SHARED) {
        __syncthreads();
        for (i64 i = threadIdx.x; i < cells; i += blockDim.x)
            if (memory[i]) atomicAdd(alpha + origin + i, memory[i]);
    }
}

// Sum of the table over the labels of each row, under its own cluster.
template <class CODE, class LABEL>
__global__ void own_scores(const CODE* __restrict__ codes, i64 n, int p, int k, const int* __restrict__ starts,
                           const int* __restrict__ table, const LABEL* __restrict__ labels, i64* scores) {
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n; row += (i64)gridDim.x * blockDim.x) {
        i64 score = 0;
        for (int j = 0; j < p; ++j) score += __ldg(table + (i64)(__ldg(starts + j) + (int)__ldg(codes + row * p + j)) * k + labels[row]);
        scores[row] = score;
    }
}
